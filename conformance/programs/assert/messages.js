const assert = require('node:assert');
try { assert.strictEqual(1, 2, 'my message'); } catch (error) { console.log(error.actual, error.expected, error.generatedMessage); }
try { assert.fail('stop'); } catch (error) { console.log(error.message, error.code); }
try { assert(false, new RangeError('mine')); } catch (error) { console.log(error.name, error.message); }
try { assert.ifError(null); assert.ifError(undefined); assert.ifError(new Error('bad')); } catch (error) { console.log(error.message); }
console.log(new assert.AssertionError({ actual: 1, expected: 2, operator: 'x', message: 'm' }).message);
