// What Node's own files find beside JavaScript: `primordials` by their names, made when one is asked for, and what its native bindings are here.
const known = Object.create(null);
const { uncurryThis, applyBind } = {
  uncurryThis: (method) => Function.prototype.call.bind(method),
  applyBind: (method, self) => (self === undefined ? (receiver, args) => Reflect.apply(method, receiver, args) : (args) => Reflect.apply(method, self, args)),
};
const typedArray = Object.getPrototypeOf(Uint8Array);
const roots = { TypedArray: typedArray, ArrayIteratorPrototype: Object.getPrototypeOf([][Symbol.iterator]()), StringIteratorPrototype: Object.getPrototypeOf(''[Symbol.iterator]()) };
const special = {
  uncurryThis, applyBind,
  SafeMap: Map, SafeSet: Set, SafeWeakMap: WeakMap, SafeWeakSet: WeakSet, SafeWeakRef: WeakRef, SafeFinalizationRegistry: FinalizationRegistry,
  SafePromiseAll: (all, map) => Promise.all(map === undefined ? all : all.map(map)), SafePromiseRace: (all) => Promise.race(all),
  SafePromiseAllReturnVoid: async (all, map) => { await Promise.all(map === undefined ? all : all.map(map)); },
  SafePromisePrototypeFinally: (promise, work) => promise.finally(work),
  SafeArrayIterator: class { constructor(list) { return list[Symbol.iterator](); } },
  SafeStringIterator: class { constructor(text) { return text[Symbol.iterator](); } },
  SafeStringPrototypeSearch: (text, pattern) => text.search(pattern),
  makeSafe: (unsafe, safe) => safe, hardenRegExp: (pattern) => pattern,
  ArrayPrototypeSymbolIterator: uncurryThis(Array.prototype[Symbol.iterator]),
  AsyncIteratorPrototype: Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}).prototype),
  IteratorPrototype: Object.getPrototypeOf(roots.ArrayIteratorPrototype),
  globalThis,
};
const ROOTS = ['AggregateError', 'ArrayBuffer', 'ArrayIteratorPrototype', 'Array', 'Atomics', 'BigInt64Array', 'BigUint64Array', 'BigInt', 'Boolean', 'DataView', 'Date', 'Error', 'EvalError', 'FinalizationRegistry', 'Float32Array', 'Float64Array', 'Function', 'Int16Array', 'Int32Array', 'Int8Array', 'JSON', 'Map', 'Math', 'Number', 'Object', 'Promise', 'Proxy', 'RangeError', 'ReferenceError', 'Reflect', 'RegExp', 'Set', 'StringIteratorPrototype', 'String', 'Symbol', 'SyntaxError', 'TypeError', 'TypedArray', 'URIError', 'Uint16Array', 'Uint32Array', 'Uint8ClampedArray', 'Uint8Array', 'WeakMap', 'WeakRef', 'WeakSet'];
const spelled = (text) => `${text[0].toLowerCase()}${text.slice(1)}`;
// `SymbolIterator` of a prototype is a symbol, `GetByteLength` a getter, `Slice` a method, `MAX_LENGTH` itself.
const member = (object, name) => {
  const candidates = [name, spelled(name)];
  for (const key of candidates) if (key in object) return { descriptor: descriptorOf(object, key), object };
  if (name.startsWith('Symbol')) {
    const symbol = Symbol[spelled(name.slice(6))];
    if (symbol !== undefined) return { descriptor: descriptorOf(object, symbol), object };
  }
  for (const accessor of ['get', 'set']) {
    if (name.slice(0, 3).toLowerCase() !== accessor) continue;
    const rest = name.slice(3);
    const key = rest.startsWith('Symbol') ? Symbol[spelled(rest.slice(6))] : spelled(rest) in object ? spelled(rest) : rest;
    const descriptor = descriptorOf(object, key);
    if (descriptor?.[accessor] !== undefined) return { accessor: descriptor[accessor] };
  }
  return undefined;
};
const descriptorOf = (object, key) => {
  for (let at = object; at !== null; at = Object.getPrototypeOf(at)) {
    const found = Object.getOwnPropertyDescriptor(at, key);
    if (found !== undefined) return found;
  }
  return undefined;
};
const make = (name) => {
  if (Object.hasOwn(special, name)) return special[name];
  if (ROOTS.includes(name)) return roots[name] ?? globalThis[name];
  if (typeof globalThis[name] === 'function') return globalThis[name];
  if (name.endsWith('Apply') && name !== 'ReflectApply') {
    const base = make(name.slice(0, -'Apply'.length));
    if (base !== undefined) return name.includes('Prototype') ? (self, args) => base(self, ...args) : (args) => base(...args);
  }
  const root = ROOTS.find((one) => name.startsWith(one) && name.length > one.length);
  if (root === undefined) return undefined;
  let object = roots[root] ?? globalThis[root];
  let rest = name.slice(root.length);
  let own = !root.endsWith('Prototype');
  if (rest === 'Prototype') return object.prototype;
  if (rest.startsWith('Prototype')) {
    object = object.prototype;
    rest = rest.slice('Prototype'.length);
    own = false;
  }
  const found = member(object, rest);
  if (found === undefined) return undefined;
  if (found.accessor !== undefined) return uncurryThis(found.accessor);
  const { value } = found.descriptor;
  if (typeof value !== 'function') return value;
  return own ? (/^[A-Z]/.test(value.name) || ['JSON', 'Math', 'Reflect'].includes(root) ? value : value.bind(object)) : uncurryThis(value);
};
const primordials = new Proxy(known, {
  get(target, name) {
    if (!(name in target)) target[name] = make(name);
    return target[name];
  },
});

const bindings = {
  buffer: () => require('web/bytes'),
  config: () => ({ hasIntl: false, hasInspector: false }),
  constants: () => ({ os: require('web/system').constants, fs: require('web/fs-constants'), zlib: require('web/zlib-constants') }),
  errors: () => ({ triggerUncaughtException: (error) => queueMicrotask(() => { throw error; }) }),
  fs: () => require('web/fs-binding').binding,
  fs_dir: () => require('web/fs-binding').folders,
  fs_event_wrap: () => require('web/fs-watch'),
  messaging: () => ({ DOMException }),
  credentials: () => ({ safeGetenv: (name) => require('web/process').env[name] }),
  os: () => require('web/system').binding,
  stream_wrap: () => ({ streamBaseState: [] }),
  zlib: () => require('web/zlib-handles'),
  trace_events: () => ({ trace() {}, isTraceCategoryEnabled: () => false }),
  process_methods: () => {
    const buffer = new ArrayBuffer(12);
    const parts = new Uint32Array(buffer);
    return {
      hrtimeBuffer: buffer,
      hrtime() {
        const now = performance.now() / 1000;
        parts.set([0, Math.trunc(now), Math.trunc((now % 1) * 1e9)]);
      },
    };
  },
  string_decoder: () => require('web/incomplete'),
  types: () => require('node/util/types'),
  url: () => ({ domainToASCII: (name) => require('web/url').domainToASCII(name), toASCII: (name) => require('web/url').domainToASCII(name) }),
  util: () => require('web/reflection'),
  uv: () => ({ getErrorMap: () => require('web/errnos').byNumber, errname: (number) => require('web/errnos').byNumber.get(number)?.[0] ?? `Unknown system error ${number}`, UV_EOF: -4095 }),
};
const made = Object.create(null);
const internalBinding = (name) => (made[name] ??= bindings[name]());

module.exports = { primordials, internalBinding };
