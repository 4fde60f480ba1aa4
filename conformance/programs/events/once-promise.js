const { once, EventEmitter } = require('events');
const e = new EventEmitter();
queueMicrotask(() => e.emit('ready', 1, 2));
console.log(JSON.stringify(await once(e, 'ready')));
queueMicrotask(() => e.emit('error', new RangeError('no')));
await once(e, 'other').catch((error) => console.log(error.name, error.message));
