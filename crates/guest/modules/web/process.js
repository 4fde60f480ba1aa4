// `process` for cells and for libraries: what a session can say of one. What it has not is refused by name.
//
// What Node's own files look at is there before their EventEmitter is.
const process = {
  title: 'node', argv: ['/usr/bin/node', '/cell'], argv0: 'node', execArgv: [], execPath: '/usr/bin/node', pid: 1, ppid: 0, platform: 'linux', arch: 'x64',
  version: 'v20.0.0', versions: { node: '20.0.0' }, release: { name: 'node', lts: 'Iron' }, features: {}, config: { target_defaults: {}, variables: {} },
};
module.exports = process;
const EventEmitter = require('node/events');
const { absent } = require('web/absent');
const { codes } = require('web/errors');
const { validateFunction, validateInteger, validateString } = require('web/validators');

const coded = (Kind, code, message) => Object.assign(new Kind(message), { code });
const began = performance.now();
// Node's own checks, loaded with the first call that needs them.
const own = () => require('web/process-methods');
const checkedOnly = (name) => { const made = { [name]: (...args) => own()[name](...args) }; return made[name]; };

// What a cell left behind failed: whether a listener has taken it.
let capture = null;
const taken = (reason, inPromise) => {
  if (inPromise && process.emit('unhandledRejection', reason, Promise.reject(reason).catch(() => {}))) return true;
  const origin = inPromise ? 'unhandledRejection' : 'uncaughtException';
  process.emit('uncaughtExceptionMonitor', reason, origin);
  if (capture !== null) {
    capture(reason);
    return true;
  }
  return process.emit('uncaughtException', reason, origin);
};
// What is said on the way out may be read there. Then nothing of the cell goes on, and no code of it can catch that.
let isLeaving = false;
const exit = (code) => {
  const given = typeof code === 'string' && /^\d+$/.test(code) ? Number(code) : code ?? process.exitCode ?? 0;
  validateInteger(given, 'code');
  if (!isLeaving) {
    isLeaving = true;
    const before = process.exitCode;
    process.exitCode = given;
    try {
      process.emit('exit', given);
    } finally {
      isLeaving = false;
      code = process.exitCode ?? given;
      process.exitCode = before;
    }
  } else code = given;
  const error = new Error(`process.exit(${code}): the cell has ended itself; its session goes on`);
  error.name = 'ProcessExit';
  error.code = 'ERR_PROCESS_EXIT';
  error.exitCode = code;
  for (const flush of flushes) flush();
  natives.exit(error);
};
// The standard streams are the console's: a line each, so what is not ended by a line break waits for it. Who puts another `write` in the place of a
// stream's own gets what the console says.
const flushes = [];
const output = (fd, level) => {
  let held = '';
  const say = (text) => natives.writeLine(level, text);
  const flush = () => {
    const rest = held;
    held = '';
    if (rest !== '') say(rest);
  };
  flushes.push(flush);
  const own = {
    write(chunk, encoding, done) {
      held += typeof chunk === 'string' ? chunk : new TextDecoder().decode(chunk);
      const end = held.lastIndexOf('\n');
      if (end >= 0) {
        say(held.slice(0, end));
        held = held.slice(end + 1);
      } else if (held !== '') {
        // Nobody says when the cell has said all: what is left goes with the next pause.
        queueMicrotask(flush);
      }
      const callback = typeof encoding === 'function' ? encoding : done;
      if (callback !== undefined) queueMicrotask(() => callback(null));
      return true;
    },
  };
  let { write } = own;
  const stream = Object.assign(new EventEmitter(), {
    fd, isTTY: false, writable: true, columns: 80,
    end(chunk) { if (chunk !== undefined) this.write(chunk); },
    getColorDepth: () => 1, hasColors: () => false,
  });
  const set = (other) => {
    write = other;
    natives.redirect(fd, other === own.write ? undefined : stream);
  };
  return Object.defineProperty(stream, 'write', { get: () => write, set, enumerable: true, configurable: true });
};
const hrtime = checkedOnly('hrtime');
hrtime.bigint = () => BigInt(Math.round(performance.now() * 1e6));
const refused = (name, instead) => absent(`process.${name}`, instead);
// Says a warning that no listener has taken, as Node does, on the console.
const say = (warning) => {
  if (process.emit('warning', warning)) return;
  const text = typeof warning.toString === 'function' ? `${warning}` : Error.prototype.toString.call(warning);
  console.warn(`${warning.code === undefined ? '' : `[${warning.code}] `}${text}${typeof warning.detail === 'string' ? `\n${warning.detail}` : ''}`);
};
const emitWarning = (warning, type, code, ctor) => {
  let detail;
  if (type !== null && typeof type === 'object' && !Array.isArray(type)) {
    ({ code, detail } = type);
    type = type.type || 'Warning';
  } else if (typeof type === 'function') [type, code] = ['Warning', undefined];
  if (type !== undefined) validateString(type, 'type');
  if (typeof code === 'function') code = undefined;
  else if (code !== undefined) validateString(code, 'code');
  if (typeof warning === 'string') {
    const made = new Error(warning);
    made.name = String(type || 'Warning');
    if (code !== undefined) made.code = code;
    if (typeof detail === 'string') made.detail = detail;
    warning = made;
  } else if (!(warning instanceof Error)) throw new codes.ERR_INVALID_ARG_TYPE('warning', ['Error', 'string'], warning);
  void ctor;
  if (warning.name === 'DeprecationWarning') {
    if (process.noDeprecation) return;
    if (process.throwDeprecation) return void process.nextTick(() => { throw warning; });
  }
  process.nextTick(say, warning);
};
// An environment of texts, as a process has it.
const NOT_DATA = 'ERR_INVALID_OBJECT_DEFINE_PROPERTY';
const asText = (value) => {
  if (typeof value === 'symbol') throw new TypeError('Cannot convert a Symbol value to a string');
  return `${value}`;
};
const env = new Proxy({}, {
  set(target, name, value) {
    target[asText(name)] = asText(value);
    return true;
  },
  defineProperty(target, name, given) {
    if ('get' in given || 'set' in given) throw coded(TypeError, NOT_DATA, "'process.env' does not accept an accessor(getter/setter) descriptor");
    if (!given.configurable || !given.writable || !given.enumerable) throw coded(TypeError, NOT_DATA, "'process.env' only accepts a configurable, writable, and enumerable data descriptor");
    return Reflect.defineProperty(target, asText(name), { ...given, value: asText(given.value) });
  },
});

Object.setPrototypeOf(process, Object.create(EventEmitter.prototype, { constructor: { value: function process() {}, writable: true, configurable: true } }));
process.constructor.prototype = Object.getPrototypeOf(process);
EventEmitter.call(process);
Object.assign(process, {
  env,
  browser: false, exitCode: undefined,
  cwd: () => '/',
  chdir: refused('chdir', 'use absolute paths'),
  umask: () => 0o22,
  uptime: () => (performance.now() - began) / 1000,
  hrtime,
  nextTick: (callback, ...args) => {
    validateFunction(callback, 'callback');
    queueMicrotask(() => callback(...args));
  },
  memoryUsage: Object.assign(() => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }), { rss: () => 0 }),
  constrainedMemory: () => undefined,
  cpuUsage: checkedOnly('cpuUsage'), resourceUsage: checkedOnly('resourceUsage'),
  getActiveResourcesInfo: () => natives.activeTimers(),
  assert: checkedOnly('assert'),
  getuid: () => 1000, geteuid: () => 1000, getgid: () => 1000, getegid: () => 1000,
  emitWarning,
  setUncaughtExceptionCaptureCallback(fn) {
    if (fn !== null && typeof fn !== 'function') throw new codes.ERR_INVALID_ARG_TYPE('fn', ['Function', 'null'], fn);
    if (fn !== null && capture !== null) throw new codes.ERR_UNCAUGHT_EXCEPTION_CAPTURE_ALREADY_SET();
    capture = fn;
  },
  hasUncaughtExceptionCaptureCallback: () => capture !== null,
  setSourceMapsEnabled: (enabled) => { require('web/validators').validateBoolean(enabled, 'enabled'); },
  stdout: output(1, 'log'),
  stderr: output(2, 'error'),
  exit,
  abort: refused('abort', 'throw an error'),
  kill: checkedOnly('kill'),
  _kill: (pid, signal) => own().send(signal),
  binding: refused('binding', 'there is no native code to bind'),
  dlopen: refused('dlopen', 'there is no native code to load'),
});
// A session has no input: whoever reads it finds its end.
Object.defineProperty(process, 'stdin', {
  get() {
    const { Readable } = require('node/stream');
    const stdin = Object.assign(new Readable({ read() { this.push(null); } }), { fd: 0, isTTY: false });
    Object.defineProperty(process, 'stdin', { value: stdin, enumerable: true, configurable: true });
    return stdin;
  },
  enumerable: true, configurable: true,
});
Object.defineProperty(process, Symbol.toStringTag, { value: 'process', configurable: true });
natives.setUncaught(taken);
