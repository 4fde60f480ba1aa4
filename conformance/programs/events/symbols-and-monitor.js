const { EventEmitter, errorMonitor } = require('events');
const e = new EventEmitter();
const s = Symbol('s');
e.on(s, () => console.log('symbol'));
e.emit(s);
e.on(errorMonitor, (error) => console.log('monitor', error.message));
try { e.emit('error', new Error('boom')); } catch (error) { console.log('thrown', error.message); }
