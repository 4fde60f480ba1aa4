// The session's timers, and their promises, checked as Node does.
const { AbortError } = require('web/errors');
const { validateAbortSignal, validateBoolean, validateObject, validateNumber, kValidateObjectAllowObjects } = require('web/validators');

const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } = globalThis;
void kValidateObjectAllowObjects;
// The signal of the options; throws as Node's timers reject.
const checked = (options) => {
  validateObject(options, 'options');
  const { signal, ref = true } = options;
  if (signal !== undefined) validateAbortSignal(signal, 'options.signal');
  validateBoolean(ref, 'options.ref');
  return signal;
};
const stopped = (signal) => new AbortError(undefined, { cause: signal.reason });
const waiting = (start, clear, value, options = {}) => new Promise((resolve, reject) => {
  const signal = checked(options);
  if (signal?.aborted) throw stopped(signal);
  const stop = () => {
    clear(handle);
    reject(stopped(signal));
  };
  const handle = start(() => {
    signal?.removeEventListener('abort', stop);
    resolve(value);
  });
  signal?.addEventListener('abort', stop, { once: true });
});
const promises = {
  setTimeout: (delay, value, options) => waiting((done) => setTimeout(done, delay), clearTimeout, value, options),
  setImmediate: (value, options) => waiting(setImmediate, clearImmediate, value, options),
  async *setInterval(delay, value, options = {}) {
    const signal = checked(options);
    if (signal?.aborted) throw stopped(signal);
    let due = 0;
    let wake;
    let failed;
    const timer = setInterval(() => { due += 1; wake?.(); }, delay);
    const stop = () => { failed = stopped(signal); wake?.(); };
    signal?.addEventListener('abort', stop, { once: true });
    try {
      for (;;) {
        if (failed === undefined && due === 0) await new Promise((resolve) => { wake = resolve; });
        for (; due > 0; due -= 1) yield value;
        if (failed !== undefined) throw failed;
      }
    } finally {
      clearInterval(timer);
      signal?.removeEventListener('abort', stop);
    }
  },
  scheduler: {
    wait: (delay, options) => {
      validateNumber(delay, 'delay');
      return promises.setTimeout(delay, undefined, options);
    },
    yield: () => promises.setImmediate(),
  },
};
module.exports = { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate, promises };
