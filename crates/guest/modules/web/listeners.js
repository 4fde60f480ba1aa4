// What Node's own files ask of an EventTarget.
const { EventTarget } = require('web/events');

const kEvents = Symbol('kEvents');
const NONE = new Map();
Object.defineProperty(EventTarget.prototype, kEvents, { get: () => NONE, configurable: true });
module.exports = { isEventTarget: (value) => value instanceof EventTarget, kEvents, kWeakHandler: Symbol('kWeakHandler'), kMaxEventTargetListeners: Symbol('kMaxEventTargetListeners'), kMaxEventTargetListenersWarned: Symbol('kWarned'), kResistStopPropagation: Symbol('kResistStopPropagation') };
