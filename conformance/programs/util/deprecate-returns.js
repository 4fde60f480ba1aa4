const { deprecate, inherits, isArray } = require('util');
const f = deprecate((a, b) => a + b, 'old');
console.log(typeof f, isArray([]), isArray({}), typeof inherits);
