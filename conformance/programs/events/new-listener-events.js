const { EventEmitter } = require('events');
const e = new EventEmitter();
e.on('newListener', (name, f) => console.log('new', name, typeof f));
e.on('removeListener', (name) => console.log('removed', name));
const f = () => {};
e.on('x', f);
e.once('y', f);
e.emit('y');
e.off('x', f);
