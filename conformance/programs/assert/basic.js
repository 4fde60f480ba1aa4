const assert = require('assert');
const outcome = (work) => { try { work(); return 'ok'; } catch (error) { return `${error.name} ${error.code} ${error.operator}`; } };
console.log(outcome(() => assert(true)), outcome(() => assert(0)), outcome(() => assert.ok('x')), outcome(() => assert.equal(1, '1')), outcome(() => assert.strictEqual(1, '1')), outcome(() => assert.notStrictEqual(1, 1)), outcome(() => assert.notEqual(1, 2)), outcome(() => assert.strictEqual(NaN, NaN)));
