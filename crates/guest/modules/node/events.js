// Node's own EventEmitter.
const events = require('lib/events');
module.exports = events;
Object.defineProperty(require('web/events').EventTarget.prototype, events.kMaxEventTargetListeners, { value: events.defaultMaxListeners, writable: true, configurable: true });
