const { inherits } = require('util');
const EventEmitter = require('events');
function Old() { EventEmitter.call(this); }
inherits(Old, EventEmitter);
const o = new Old();
o.on('x', () => console.log('x'));
o.emit('x');
console.log(o instanceof EventEmitter, Old.super_ === EventEmitter);
