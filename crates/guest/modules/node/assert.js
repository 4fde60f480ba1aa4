// The package of Node's own assert. It lets an error through that a pattern does not match; Node has since called that a failed assertion.
const assert = require('assert/');
const { inspect } = require('node/util');

const { AssertionError } = assert;
const isErrorClass = (expected) => typeof expected === 'function' && (expected === Error || expected.prototype instanceof Error);
const instance = (expected, operator) => (error) => {
  if (error instanceof expected) return true;
  throw new AssertionError({ message: `The error is expected to be an instance of "${expected.name}". Received "${error?.name ?? error}"\n\nError message:\n\n${error?.message}`, actual: error, expected, operator });
};
const matching = (expected, operator) => (error) => {
  if (expected.test(String(error))) return true;
  throw new AssertionError({ message: `The input did not match the regular expression ${inspect(expected)}. Input:\n\n${inspect(String(error))}\n`, actual: error, expected, operator });
};
for (const target of [assert, assert.strict]) {
  for (const operator of ['throws', 'rejects']) {
    const original = target[operator];
    target[operator] = (work, expected, ...rest) => {
      if (expected instanceof RegExp) return original(work, matching(expected, operator), ...rest);
      if (isErrorClass(expected)) return original(work, instance(expected, operator), ...rest);
      return original(work, expected, ...rest);
    };
  }
}
module.exports = assert;
