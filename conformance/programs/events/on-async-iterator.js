const { on, EventEmitter } = require('events');
const e = new EventEmitter();
queueMicrotask(() => { e.emit('n', 1); e.emit('n', 2, 'b'); e.emit('n', 3); });
for await (const args of on(e, 'n')) {
  console.log(JSON.stringify(args));
  if (args[0] === 3) break;
}
console.log(e.listenerCount('n'));
