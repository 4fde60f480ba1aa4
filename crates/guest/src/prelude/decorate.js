// What decorated classes call: TypeScript's experimental decorators, as the compiler of cells prints them.
const decorate = (...given) => {
  const decorators = given[0];
  const target = given[1];
  const key = given[2];
  const ofClass = given.length < 3;
  let result = ofClass ? target : given[3] === null ? getOwnPropertyDescriptor(target, key) : given[3];
  for (let i = decorators.length - 1; i >= 0; i--) {
    const decorator = decorators[i];
    result = (ofClass ? decorator(result) : given.length > 3 ? decorator(target, key, result) : decorator(target, key)) || result;
  }
  if (given.length > 3 && result) defineProperty(target, key, result);
  return result;
};
const decorateParam = (index, decorator) => (target, key) => { decorator(target, key, index); };
expose('babelHelpers', ObjectCtor.freeze({ __proto__: null, decorate, decorateParam }));
