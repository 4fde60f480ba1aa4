const { EventEmitter } = require('events');
class Counter extends EventEmitter {
  n = 0;
  up() { this.n += 1; this.emit('up', this.n); return this; }
}
const c = new Counter();
c.on('up', (n) => console.log('up', n));
c.up().up();
console.log(c instanceof EventEmitter, EventEmitter.EventEmitter === EventEmitter, c.getMaxListeners(), EventEmitter.defaultMaxListeners);
