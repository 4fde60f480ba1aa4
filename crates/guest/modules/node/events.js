// The package of Node's own EventEmitter, and the statics that Node has added since.
const EventEmitter = require('events/events.js');

const abortError = (signal) => {
  const error = new Error('The operation was aborted');
  error.name = 'AbortError';
  error.code = 'ABORT_ERR';
  if (signal.reason !== undefined) error.cause = signal.reason;
  return error;
};
const isTarget = (target) => typeof target?.addEventListener === 'function' && typeof target.on !== 'function';

const basicOnce = EventEmitter.once;
const once = (emitter, name, { signal } = {}) => {
  if (signal === undefined) return basicOnce(emitter, name);
  if (signal.aborted) return Promise.reject(abortError(signal));
  return new Promise((resolve, reject) => {
    const stop = () => reject(abortError(signal));
    signal.addEventListener('abort', stop, { once: true });
    basicOnce(emitter, name).then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
};

// What happens on the emitter, as an async iterator; the events between two `next` wait in a queue.
const on = (emitter, name, { signal, close = [] } = {}) => {
  if (signal?.aborted) throw abortError(signal);
  const events = [];
  const waiting = [];
  let failure;
  let done = false;
  const listener = (...args) => {
    const next = waiting.shift();
    if (next === undefined) events.push(args);
    else next.resolve({ value: args, done: false });
  };
  const fail = (error) => {
    const next = waiting.shift();
    if (next === undefined) failure = { error };
    else next.reject(error);
    iterator.return();
  };
  const stop = () => fail(abortError(signal));
  const end = () => iterator.return();
  const iterator = {
    next() {
      if (events.length > 0) return Promise.resolve({ value: events.shift(), done: false });
      if (failure !== undefined) {
        const { error } = failure;
        failure = undefined;
        return Promise.reject(error);
      }
      if (done) return Promise.resolve({ value: undefined, done: true });
      return new Promise((resolve, reject) => { waiting.push({ resolve, reject }); });
    },
    return() {
      done = true;
      emitter.removeListener(name, listener);
      if (name !== 'error') emitter.removeListener('error', fail);
      for (const closing of close) emitter.removeListener(closing, end);
      signal?.removeEventListener('abort', stop);
      for (const next of waiting.splice(0)) next.resolve({ value: undefined, done: true });
      return Promise.resolve({ value: undefined, done: true });
    },
    throw(error) {
      fail(error);
      return Promise.resolve({ value: undefined, done: true });
    },
    [Symbol.asyncIterator]() { return this; },
  };
  emitter.on(name, listener);
  if (name !== 'error') emitter.on('error', fail);
  for (const closing of close) emitter.on(closing, end);
  signal?.addEventListener('abort', stop, { once: true });
  return iterator;
};

const setMaxListeners = (count = EventEmitter.defaultMaxListeners, ...emitters) => {
  if (emitters.length === 0) EventEmitter.defaultMaxListeners = count;
  for (const emitter of emitters) if (!isTarget(emitter)) emitter.setMaxListeners(count);
};
const addAbortListener = (signal, listener) => {
  if (signal.aborted) queueMicrotask(() => listener());
  else signal.addEventListener('abort', listener, { once: true });
  return { [Symbol.dispose ?? Symbol.for('Symbol.dispose')]() { signal.removeEventListener('abort', listener); } };
};

// `errorMonitor` listeners see an error before anybody else, and do not count as its handlers.
const errorMonitor = Symbol('events.errorMonitor');
const { emit } = EventEmitter.prototype;
EventEmitter.prototype.emit = function (name, ...args) {
  if (name === 'error' && this._events?.[errorMonitor] !== undefined) emit.call(this, errorMonitor, ...args);
  return emit.call(this, name, ...args);
};
for (const name of ['on', 'addListener', 'once', 'prependListener', 'prependOnceListener', 'off', 'removeListener']) {
  const original = EventEmitter.prototype[name];
  EventEmitter.prototype[name] = function (event, listener) {
    if (typeof listener !== 'function') throw Object.assign(new TypeError(`The "listener" argument must be of type function. Received ${listener === null ? 'null' : typeof listener}`), { code: 'ERR_INVALID_ARG_TYPE' });
    return original.call(this, event, listener);
  };
}
const { listenerCount } = EventEmitter.prototype;
EventEmitter.prototype.listenerCount = function (name, listener) {
  return listener === undefined ? listenerCount.call(this, name) : this.rawListeners(name).filter((one) => one === listener || one.listener === listener).length;
};

module.exports = Object.assign(EventEmitter, {
  EventEmitter, once, on, errorMonitor, setMaxListeners, addAbortListener,
  getEventListeners: (emitter, name) => (isTarget(emitter) ? [] : emitter.listeners(name)),
  getMaxListeners: (emitter) => emitter.getMaxListeners?.() ?? EventEmitter.defaultMaxListeners,
  captureRejectionSymbol: Symbol.for('nodejs.rejection'),
});
