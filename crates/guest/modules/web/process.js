// `process` for cells and for libraries: what a session can say of one. What it has not is refused by name.
const coded = (Kind, code, message) => Object.assign(new Kind(message), { code });
const began = performance.now();
const listeners = new Map();
const list = (name) => listeners.get(name) ?? [];
const callable = (callback) => {
  if (typeof callback !== 'function') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "callback" argument must be of type function. Received ${callback === null || callback === undefined ? callback : `type ${typeof callback} (${natives.inspect(callback)})`}`);
  return callback;
};
const add = (front) => (name, listener) => {
  const all = list(name);
  listeners.set(name, front ? [callable(listener), ...all] : [...all, callable(listener)]);
  return process;
};
const remove = (name, listener) => {
  const at = list(name).findLastIndex((one) => one === listener || one.listener === listener);
  if (at >= 0) listeners.set(name, list(name).toSpliced(at, 1));
  return process;
};
const once = (name, listener) => {
  const wrapped = (...args) => {
    remove(name, wrapped);
    return listener.apply(process, args);
  };
  wrapped.listener = callable(listener);
  return process.on(name, wrapped);
};
const emit = (name, ...args) => {
  const all = list(name);
  for (const listener of all) listener.apply(process, args);
  return all.length > 0;
};
// The standard streams are the console's: a line each, so what is not ended by a line break waits for it.
const output = (fd, say) => {
  let held = '';
  return {
    fd, isTTY: false, writable: true, columns: 80,
    write(chunk, encoding, done) {
      held += typeof chunk === 'string' ? chunk : new TextDecoder().decode(chunk);
      const end = held.lastIndexOf('\n');
      if (end >= 0) {
        say(held.slice(0, end));
        held = held.slice(end + 1);
      } else if (held !== '') {
        // Nobody says when the cell has said all: what is left goes with the next pause.
        queueMicrotask(() => {
          if (held === '') return;
          const rest = held;
          held = '';
          say(rest);
        });
      }
      const callback = typeof encoding === 'function' ? encoding : done;
      if (callback !== undefined) queueMicrotask(callback);
      return true;
    },
    end(chunk) { if (chunk !== undefined) this.write(chunk); },
    on() { return this; }, once() { return this; }, emit: () => false, removeListener() { return this; },
    getColorDepth: () => 1, hasColors: () => false,
  };
};
const NANOSECONDS = 1e9;
const hrtime = (before) => {
  const now = performance.now() / 1000;
  let [seconds, rest] = [Math.trunc(now), Math.round((now % 1) * NANOSECONDS)];
  if (before === undefined) return [seconds, rest];
  if (!Array.isArray(before)) throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "time" argument must be an instance of Array.');
  if (before.length !== 2) throw coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "time" is out of range. It must be 2. Received ${before.length}`);
  seconds -= before[0];
  rest -= before[1];
  return rest < 0 ? [seconds - 1, rest + NANOSECONDS] : [seconds, rest];
};
hrtime.bigint = () => BigInt(Math.round(performance.now() * 1e6));
const refused = (name, instead) => () => { throw coded(Error, 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM', `process.${name} is not there in a session: ${instead}`); };
const emitWarning = (warning, type, code) => {
  const options = typeof type === 'object' && type !== null ? type : { type, code };
  const told = warning instanceof Error ? warning : Object.assign(new Error(warning), { name: options.type ?? 'Warning' });
  if (options.code !== undefined) told.code = options.code;
  if (!emit('warning', told)) console.warn(`${told.code === undefined ? '' : `[${told.code}] `}${told.name}: ${told.message}`);
};

const process = {
  title: 'node', env: {}, argv: ['/usr/bin/node', '/cell'], argv0: 'node', execArgv: [], execPath: '/usr/bin/node', pid: 1, ppid: 0, platform: 'linux', arch: 'x64',
  version: 'v20.0.0', versions: { node: '20.0.0' }, release: { name: 'node', lts: 'Iron' }, features: {}, config: { target_defaults: {}, variables: {} },
  browser: false, exitCode: undefined,
  cwd: () => '/',
  chdir: refused('chdir', 'use absolute paths'),
  umask: () => 0o22,
  uptime: () => (performance.now() - began) / 1000,
  hrtime,
  nextTick: (callback, ...args) => {
    callable(callback);
    queueMicrotask(() => callback(...args));
  },
  memoryUsage: Object.assign(() => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }), { rss: () => 0 }),
  cpuUsage: () => ({ user: 0, system: 0 }),
  getuid: () => 1000, geteuid: () => 1000, getgid: () => 1000, getegid: () => 1000,
  emitWarning,
  on: add(false), addListener: add(false), prependListener: add(true), once, off: remove, removeListener: remove,
  removeAllListeners(name) {
    if (name === undefined) listeners.clear();
    else listeners.delete(name);
    return process;
  },
  listeners: (name) => list(name).map((one) => one.listener ?? one),
  listenerCount: (name) => list(name).length,
  eventNames: () => [...listeners.keys()].filter((name) => list(name).length > 0),
  setMaxListeners: () => process, getMaxListeners: () => 10,
  emit,
  stdout: output(1, (text) => console.log('%s', text)),
  stderr: output(2, (text) => console.error('%s', text)),
  exit(code = process.exitCode ?? 0) {
    const error = new Error(`process.exit(${code}): the cell has ended itself; its session goes on`);
    error.name = 'ProcessExit';
    error.code = 'ERR_PROCESS_EXIT';
    error.exitCode = code;
    throw error;
  },
  abort: refused('abort', 'throw an error'),
  kill: refused('kill', 'a session has no other processes'),
  binding: refused('binding', 'there is no native code to bind'),
  dlopen: refused('dlopen', 'there is no native code to load'),
};
Object.defineProperty(process, Symbol.toStringTag, { value: 'process', configurable: true });
module.exports = process;
