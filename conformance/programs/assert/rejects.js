const assert = require('assert');
await assert.rejects(Promise.reject(new Error('x')), /x/);
await assert.rejects(async () => { throw new RangeError('y'); }, RangeError);
await assert.doesNotReject(Promise.resolve(1));
await assert.rejects(Promise.resolve(1)).catch((error) => console.log(error.name, error.code));
await assert.doesNotReject(Promise.reject(new Error('z'))).catch((error) => console.log(error.name));
