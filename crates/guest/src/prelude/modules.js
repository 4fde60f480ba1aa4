// The modules that a session finds. Their bytecode lies in the engine; one is evaluated when something first asks for it, so that a session
// has no page of those it does not use. `node/…` and `npm/…` are for cells, `web/…` is behind globals. Other packages of npm come from outside the
// heap, where `spec.modules` allows them: `web/packages` finds its way in them.
const modules = new MapCtor();
let takeUncaught;
const inside = { __proto__: null, inspect, formatLine, kindOf, typedTag };
for (const name in native.forModules) inside[name] = native.forModules[name];
inside.classId = native.classId;
inside.entropy = native.entropy;
inside.getContext = native.getContext;
inside.setContext = native.setContext;
inside.promiseState = native.promiseState;
inside.promiseResult = native.promiseResult;
inside.proxyTarget = native.proxyTarget;
inside.proxyHandler = native.proxyHandler;
inside.iteratorEntries = (iterator) => {
  const { rest, both } = iteratorRest(iterator);
  return { __proto__: null, entries: rest, keyed: both };
};
// What a module comes to, without keeping it.
inside.evaluate = (id) => {
  const module = { __proto__: null, exports: {} };
  apply(native.module(id), undefined, [module.exports, loadModule, module, inside]);
  return module.exports;
};
inside.isLoaded = (id) => mapHas(modules, id);
inside.webcrypto = cryptoObject;
inside.performance = performanceObject;
inside.utf8Encode = native.utf8Encode;
inside.utf8Decode = native.utf8Decode;
inside.told = told;
inside.callTool = callTool;
inside.sliceOf = sliceOf;
inside.operate = operate;
inside.activeTimers = activeTimers;
inside.writeLine = emitLine;
inside.redirect = (fd, stream) => { redirected[fd] = stream; };
// What takes an exception that a cell left behind, before it is told.
inside.setUncaught = (take) => { takeUncaught = take; };
inside.giveUp = giveUp;
inside.tell = tell;
inside.loadModule = (id) => loadModule(id);
inside.isKnown = native.hasModule;

const loadModule = (id) => {
  const known = mapGet(modules, id);
  if (known !== undefined) return known.exports;
  const module = { __proto__: null, exports: {} };
  const evaluate = native.module(id);
  if (evaluate === undefined) throw new ErrorCtor(`there is no module ${id}`);
  mapSet(modules, id, module);
  let done = false;
  try {
    apply(evaluate, undefined, [module.exports, loadModule, module, inside]);
    done = true;
  } finally {
    // A module that a limit has stopped half way is evaluated again by who asks next.
    if (!done) mapDelete(modules, id);
  }
  return module.exports;
};

const isKnown = native.hasModule;
const namesOf = (folder) => {
  const ids = native.moduleNames();
  const names = [];
  for (let i = 0; i < ids.length; i++) {
    const name = slice(ids[i], folder.length);
    if (slice(ids[i], 0, folder.length) === folder && indexOf(name, '/') < 0 && name[0] !== '_') names[names.length] = name;
  }
  return join(names, ', ');
};
const notThere = (name, code) => {
  const refusal = loadModule('web/refusals')(name, code);
  if (refusal !== undefined) return refusal;
  const error = new ErrorCtor(`Cannot find module '${name}'. There are ${namesOf('node/')}, also with the prefix node:, and ${namesOf('npm/')}, also with the prefix npm:; other packages of npm are there when spec.modules.allow of the session names them`);
  error.code = code;
  return error;
};
const LODASH = 'lodash/';
// What the engine has.
const requireKnown = (name, code) => {
  const prefix = slice(name, 0, 5) === 'node:' ? 'node/' : slice(name, 0, 4) === 'npm:' ? 'npm/' : '';
  const bare = prefix === '' ? name : slice(name, prefix.length);
  if (prefix !== 'npm/' && isKnown(`node/${bare}`)) return loadModule(`node/${bare}`);
  if (prefix !== 'node/') {
    if (isKnown(`npm/${bare}`)) return loadModule(`npm/${bare}`);
    if (slice(bare, 0, LODASH.length) === LODASH) {
      const one = getOwnPropertyDescriptor(loadModule('npm/lodash'), slice(bare, LODASH.length));
      if (one !== undefined && typeof one.value === 'function') return one.value;
    }
  }
  throw notThere(name, code);
};

// What the session has of npm's packages. A file of one is a module named `npm:NAME@VERSION/PATH`.
const PACKAGE = 'npm:';
const packages = () => loadModule('web/packages');
const isPackageFile = (id) => slice(id, 0, PACKAGE.length) === PACKAGE && indexOf(id, '@', PACKAGE.length + 1) > 0;
// The file that a cell means: of a package that the session has or may have, or undefined.
const packageFile = (name, how) => {
  const prefixed = slice(name, 0, PACKAGE.length) === PACKAGE;
  const bare = prefixed ? slice(name, PACKAGE.length) : name;
  const first = slice(bare, 0, 1);
  if (first === '' || first === '.' || first === '/' || slice(bare, 0, 5) === 'node:' || (!prefixed && isKnown(`node/${bare}`))) return undefined;
  let end = indexOf(bare, '/');
  if (first === '@' && end >= 0) end = indexOf(bare, '/', end + 1);
  const found = told(native.package(end < 0 ? bare : slice(bare, 0, end)));
  if (typeof found !== 'string') return undefined;
  return packages().entry(found, end < 0 ? '' : slice(bare, end + 1), how);
};
// The session's own files: by a path, or by the URL that such a module has.
const OWN_FILE = 'file:///';
const isOwnFile = (id) => slice(id, 0, OWN_FILE.length) === OWN_FILE;
const isPath = (name) => name[0] === '/' || name === '.' || name === '..' || slice(name, 0, 2) === './' || slice(name, 0, 3) === '../' || isOwnFile(name);
expose('require', function require(name) {
  if (typeof name !== 'string') throw new TypeErrorCtor('the name of a module must be a string');
  const file = isPath(name) ? packages().ownFile(name, 'require') : packageFile(name, 'require');
  return file === undefined ? requireKnown(name, 'MODULE_NOT_FOUND') : packages().requireFile(file);
});
// What a name means: a module of the engine by its own name, a file of a package by its.
method(global.require, 'resolve', function resolve(name) {
  if (typeof name !== 'string') throw new TypeErrorCtor('the name of a module must be a string');
  if (isPath(name)) return packages().shown(packages().ownFile(name, 'require'));
  const file = packageFile(name, 'require');
  if (file !== undefined) return file;
  requireKnown(name, 'MODULE_NOT_FOUND');
  return name;
});

// What `base` means by a name: a module as `moduleExports` takes it.
const EXACTLY = 'require:';
const OWN = 'dormouse:';
const resolveModule = (base, name) => {
  if (isPackageFile(base) || isOwnFile(base)) return packages().resolveImport(name, base);
  if (slice(base, 0, EXACTLY.length) === EXACTLY) return name;
  if (isPath(name)) return packages().ownFile(name, 'import');
  const file = packageFile(name, 'import');
  if (file === undefined && (isPackageFile(name) || slice(name, 0, OWN.length) === OWN)) throw notThere(name, 'ERR_MODULE_NOT_FOUND');
  return file ?? name;
};
// What an `import` of the module sees: names and their values, or the text of an ES module.
const moduleExports = (name) => {
  if (isPackageFile(name) || isOwnFile(name) || slice(name, 0, OWN.length) === OWN) return packages().load(name);
  const exports = requireKnown(name, 'ERR_MODULE_NOT_FOUND');
  const fromModule = hasOwn(exports, '__esModule') && hasOwn(exports, 'default');
  return exported(exports, fromModule ? exports.default : exports);
};
const exported = (exports, byDefault) => {
  const names = ['default'];
  const values = [byDefault];
  const keys = typeof exports === 'object' && exports !== null || typeof exports === 'function' ? ownKeys(exports) : [];
  for (let i = 0; i < keys.length; i++) {
    if (typeof keys[i] !== 'string' || keys[i] === 'default' || !isEnumerable(exports, keys[i])) continue;
    names[names.length] = keys[i];
    values[values.length] = exports[keys[i]];
  }
  return [names, values];
};
inside.exported = exported;

// Globals that come with a module: reading one loads it, and from then on it is an ordinary global. There are many, so one function each, which
// has one number, is all that they cost until then: without an argument it reads, with one it writes.
const laters = [];
const settleLater = (at, value) => { method(laters[at], laters[at + 1], value); };
const readLater = (at) => {
  const value = loadModule(laters[at + 2])[laters[at + 1]];
  // A module that is being evaluated has not made it yet.
  if (value !== undefined) settleLater(at, value);
  return value;
};
const later = (object, name, id) => {
  const at = laters.length;
  laters[at] = object;
  laters[at + 1] = name;
  laters[at + 2] = id;
  const both = (...given) => (given.length === 0 ? readLater(at) : settleLater(at, given[0]));
  defineProperty(object, name, { __proto__: null, get: both, set: both, configurable: true, enumerable: false });
};
const GLOBALS = {
  __proto__: null,
  'node/buffer': ['Buffer'],
  'web/url': ['URL', 'URLSearchParams'],
  'web/events': ['Event', 'EventTarget', 'CustomEvent'],
  'web/abort': ['AbortController', 'AbortSignal'],
  'web/blob': ['Blob', 'File'],
  'web/form': ['FormData'],
  'web/compression': ['CompressionStream', 'DecompressionStream'],
  'web/globals': ['process', 'module', 'exports', '__filename', '__dirname', '$importMeta'],
  'web/performance': ['Performance', 'PerformanceEntry', 'PerformanceMark', 'PerformanceMeasure', 'PerformanceObserver', 'PerformanceObserverEntryList', 'PerformanceResourceTiming'],
  'web/headers': ['Headers'],
  'web/helpers': ['babelHelpers'],
  'web/intl': ['Intl'],
  'web/temporal': ['Temporal'],
  'web/fetch': ['Request', 'Response', 'fetch'],
  'web/crypto': ['Crypto', 'CryptoKey', 'SubtleCrypto'],
  'web/references': ['refs'],
  'web/knowledge': ['knowledge'],
  'web/mcp': ['mcp'],
  'web/streams': [
    'ReadableStream', 'ReadableStreamDefaultReader', 'ReadableStreamBYOBReader', 'ReadableStreamDefaultController', 'ReadableByteStreamController',
    'ReadableStreamBYOBRequest', 'WritableStream', 'WritableStreamDefaultWriter', 'WritableStreamDefaultController', 'TransformStream',
    'TransformStreamDefaultController', 'ByteLengthQueuingStrategy', 'CountQueuingStrategy', 'TextEncoderStream', 'TextDecoderStream',
  ],
};
for (const id in GLOBALS) for (let i = 0; i < GLOBALS[id].length; i++) later(global, GLOBALS[id][i], id);
later(consoleObject, 'Console', 'node/console');
later(global.require, 'cache', 'web/packages');
expose('global', global);
// What the language says in a locale comes with the module that knows locales: a function each that has no more than its name.
const inLocale = (prototype, names) => {
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    method(prototype, name, { [name](...given) { return loadModule('web/localized')[name](this, given); } }[name]);
  }
};
inLocale(NumberCtor.prototype, ['toLocaleString']);
inLocale(BigInt.prototype, ['toLocaleString']);
inLocale(DateCtor.prototype, ['toLocaleString', 'toLocaleDateString', 'toLocaleTimeString']);
method(DateCtor.prototype, 'toTemporalInstant', { toTemporalInstant() { return apply(loadModule('web/temporal').toTemporalInstant, this, []); } }.toTemporalInstant);
inLocale(StringCtor.prototype, ['localeCompare', 'toLocaleLowerCase', 'toLocaleUpperCase']);
const TIMELINE = ['mark', 'measure', 'clearMarks', 'clearMeasures', 'getEntries', 'getEntriesByName', 'getEntriesByType', 'timerify', 'eventLoopUtilization', 'markResourceTiming', 'setResourceTimingBufferSize', 'clearResourceTimings', 'addEventListener', 'removeEventListener', 'dispatchEvent'];
// The module puts its own functions in the place of these.
for (let i = 0; i < TIMELINE.length; i++) {
  const name = TIMELINE[i];
  method(performancePrototype, name, { [name](...given) {
    loadModule('web/performance');
    return apply(performancePrototype[name], this, given);
  } }[name]);
}
later(hostObject, 'subLM', 'web/models');
