const util = require('util');
const add = (a, b, callback) => queueMicrotask(() => (b === undefined ? callback(new Error('two')) : callback(null, a + b)));
console.log(await util.promisify(add)(1, 2));
await util.promisify(add)(1, undefined).catch((error) => console.log(error.message));
const custom = () => {};
custom[util.promisify.custom] = () => Promise.resolve('custom');
console.log(await util.promisify(custom)());
try { util.promisify(5); } catch (error) { console.log(error.name); }
