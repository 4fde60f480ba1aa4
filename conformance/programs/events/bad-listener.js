const { EventEmitter } = require('events');
try { new EventEmitter().on('x', 5); } catch (error) { console.log(error.name, error.code); }
try { new EventEmitter().setMaxListeners(-1); } catch (error) { console.log(error.name); }
