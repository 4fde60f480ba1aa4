// The session's timers, and their promises, checked as Node does.
const { AbortError, codes } = require('web/errors');
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
// What may be anything with a delay and a callback: an old form of timers that libraries still use.
const MAX = 2 ** 31 - 1;
const enrolled = new WeakMap();
const unenroll = (item) => {
  const timer = enrolled.get(item);
  if (timer !== undefined) clearTimeout(timer);
  enrolled.delete(item);
  if (typeof item?.close === 'function' && typeof item.hasRef === 'function') clearTimeout(item);
  item._idleTimeout = -1;
};
const enroll = (item, msecs) => {
  validateNumber(msecs, 'msecs');
  if (msecs < 0 || !Number.isFinite(msecs)) throw new codes.ERR_OUT_OF_RANGE('msecs', 'a non-negative finite number', msecs);
  if (enrolled.has(item)) unenroll(item);
  if (msecs > MAX) process.emitWarning(`${msecs} does not fit into a 32-bit signed integer.\nTimer duration was truncated to ${MAX}.`, 'TimeoutOverflowWarning');
  item._idleTimeout = Math.min(msecs, MAX);
};
const start = (item) => {
  const delay = item._idleTimeout;
  if (delay === undefined || delay < 0) return;
  if (enrolled.has(item)) clearTimeout(enrolled.get(item));
  item._idleStart = Math.trunc(performance.now());
  item._idleNext = item._idlePrev = item;
  enrolled.set(item, setTimeout(() => {
    enrolled.delete(item);
    item._onTimeout?.();
  }, delay));
};
module.exports = { enroll, unenroll, active: start, _unrefActive: start, setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate, promises };
