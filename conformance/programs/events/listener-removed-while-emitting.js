const { EventEmitter } = require('events');
const e = new EventEmitter();
const second = () => console.log('second');
e.on('x', () => { console.log('first'); e.off('x', second); });
e.on('x', second);
e.emit('x');
e.emit('x');
