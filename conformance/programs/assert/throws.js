const assert = require('assert');
const thrower = () => { throw Object.assign(new TypeError('wrong value'), { code: 'X' }); };
assert.throws(thrower);
assert.throws(thrower, TypeError);
assert.throws(thrower, /wrong/);
assert.throws(thrower, { name: 'TypeError', message: 'wrong value', code: 'X' });
assert.throws(thrower, (error) => error instanceof TypeError);
for (const work of [() => assert.throws(() => {}), () => assert.throws(thrower, /other/), () => assert.throws(thrower, { message: 'no' }), () => assert.doesNotThrow(thrower)]) try { work(); console.log('no'); } catch (error) { console.log(error.name); }
try { assert.throws(thrower, RangeError); } catch (error) { console.log(error.name); }
