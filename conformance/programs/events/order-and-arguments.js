const EventEmitter = require('events');
const e = new EventEmitter();
e.on('x', (a, b) => console.log('first', a, b));
e.prependListener('x', () => console.log('before'));
e.once('x', function (a) { console.log('once', a, this === e); });
console.log(e.emit('x', 1, 2), e.emit('x', 3), e.emit('y'));
