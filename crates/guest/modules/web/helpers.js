// What cells call that the compiler has rewritten: TypeScript's experimental decorators, those of the TC39 proposal, and resources that a cell uses at its top level.
const decorate = (...given) => {
  const [decorators, target, key] = given;
  const ofClass = given.length < 3;
  let result = ofClass ? target : given[3] === null ? Object.getOwnPropertyDescriptor(target, key) : given[3];
  for (const decorator of [...decorators].reverse()) {
    result = (ofClass ? decorator(result) : given.length > 3 ? decorator(target, key, result) : decorator(target, key)) || result;
  }
  if (given.length > 3 && result) Object.defineProperty(target, key, result);
  return result;
};
const decorateParam = (index, decorator) => (target, key) => { decorator(target, key, index); };

// Let go of in reverse at the cell's end, whatever that is.
let resources = [];
const use = (value, isAsync) => {
  if (value === null || value === undefined) return value;
  const release = (isAsync ? value[Symbol.asyncDispose] : undefined) ?? value[Symbol.dispose];
  if (typeof release !== 'function') throw new TypeError('The value is not disposable');
  resources.push(() => release.call(value));
  return value;
};
const failed = (error, before) => ({ error: before === undefined ? error : new SuppressedError(error, before.error) });
const dispose = () => {
  let failure;
  for (const release of resources.splice(0).reverse()) {
    try {
      release();
    } catch (error) {
      failure = failed(error, failure);
    }
  }
  if (failure !== undefined) throw failure.error;
};
const disposeAsync = async () => {
  let failure;
  for (const release of resources.splice(0).reverse()) {
    try {
      await release();
    } catch (error) {
      failure = failed(error, failure);
    }
  }
  if (failure !== undefined) throw failure.error;
};
module.exports = { babelHelpers: Object.freeze({ __proto__: null, decorate, decorateParam, using: (value) => use(value, false), usingAsync: (value) => use(value, true), dispose, disposeAsync, decorated: (...given) => require('web/decorators').decorated(...given) }) };
