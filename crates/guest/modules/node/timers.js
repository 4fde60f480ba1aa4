// The session's timers, and their promises.
const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } = globalThis;

const aborted = (signal) => {
  const error = new Error('The operation was aborted');
  error.name = 'AbortError';
  error.code = 'ABORT_ERR';
  error.cause = signal.reason;
  return error;
};
const waiting = (start, clear) => (value, signal) => new Promise((resolve, reject) => {
  if (signal?.aborted) return void reject(aborted(signal));
  const stop = () => {
    clear(handle);
    reject(aborted(signal));
  };
  const handle = start(() => {
    signal?.removeEventListener('abort', stop);
    resolve(value);
  });
  signal?.addEventListener('abort', stop, { once: true });
});
const promises = {
  setTimeout: (delay, value, { signal } = {}) => waiting((done) => setTimeout(done, delay), clearTimeout)(value, signal),
  setImmediate: (value, { signal } = {}) => waiting(setImmediate, clearImmediate)(value, signal),
  async *setInterval(delay, value, { signal } = {}) {
    for (;;) {
      await promises.setTimeout(delay, undefined, { signal });
      yield value;
    }
  },
  scheduler: {
    wait: (delay, options) => promises.setTimeout(delay, undefined, options),
    yield: () => promises.setImmediate(),
  },
};
module.exports = { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate, promises };
