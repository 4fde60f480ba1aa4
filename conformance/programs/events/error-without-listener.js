const EventEmitter = require('node:events');
const e = new EventEmitter();
try { e.emit('error', new TypeError('mine')); } catch (error) { console.log(error.name, error.message); }
try { e.emit('error', 'text'); } catch (error) { console.log(error instanceof Error); }
e.on('error', (error) => console.log('handled', error.message));
console.log(e.emit('error', new Error('now')));
