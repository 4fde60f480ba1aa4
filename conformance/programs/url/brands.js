// Methods of another object, and arguments that are missing.
const params = new URLSearchParams('a=1&b=2');
const tell = (work) => {
  try {
    console.log(work());
  } catch (error) {
    console.log(error.name, error.code, error.message);
  }
};
for (const name of ['append', 'delete', 'get', 'getAll', 'has', 'set', 'entries', 'forEach', 'keys', 'toString']) tell(() => params[name].call({}));
for (const name of ['append', 'delete', 'get', 'has', 'set']) tell(() => params[name]());
tell(() => params.entries().next.call({}));
tell(() => new URLSearchParams({ [Symbol.iterator]: 1 }));
tell(() => new URLSearchParams([['a']]));
tell(() => URL.canParse());
console.log(Object.getOwnPropertyDescriptor(URL.prototype, 'href').get.name, params, params.entries());
