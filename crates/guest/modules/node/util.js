// Node's util: the package for what is plain JavaScript, the engine for what looks into values.
const basic = require('util/util.js');
const { parseArgs } = require('@pkgjs/parseargs');

const inspect = (value, options, depth) => {
  const wanted = typeof options === 'object' && options !== null ? options.depth : depth;
  return natives.inspect(value, { __proto__: null, ...(typeof options === 'object' ? options : undefined), depth: wanted === null ? Infinity : wanted ?? 2 });
};
inspect.custom = Symbol.for('nodejs.util.inspect.custom');
inspect.defaultOptions = { depth: 2 };
const format = (...args) => natives.formatLine(args);

// Kinds by the engine's class numbers, which no script can forge.
const { classId } = natives;
const kind = (...samples) => {
  const ids = new Set(samples.map(classId));
  return (value) => ((typeof value === 'object' && value !== null) || typeof value === 'function') && ids.has(classId(value));
};
const typed = (name) => (value) => ArrayBuffer.isView(value) && natives.typedTag(value) === name;
const boxed = { isNumberObject: kind(Object(0)), isStringObject: kind(Object('')), isBooleanObject: kind(Object(false)), isBigIntObject: kind(Object(0n)), isSymbolObject: kind(Object(Symbol())) };
const isAsyncFunction = kind(async () => {}, async function* () {});
const isAsyncGenerator = kind(async function* () {});
const buffers = { isArrayBuffer: kind(new ArrayBuffer(0)), isSharedArrayBuffer: typeof SharedArrayBuffer === 'function' ? kind(new SharedArrayBuffer(0)) : () => false };
const types = {
  ...boxed, ...buffers, isAsyncFunction,
  isBoxedPrimitive: (value) => Object.values(boxed).some((is) => is(value)),
  isAnyArrayBuffer: (value) => buffers.isArrayBuffer(value) || buffers.isSharedArrayBuffer(value),
  isArgumentsObject: kind((function () { return arguments; })(), (function () { 'use strict'; return arguments; })()),
  isArrayBufferView: (value) => ArrayBuffer.isView(value),
  isDataView: kind(new DataView(new ArrayBuffer(0))),
  isDate: kind(new Date(0)),
  isGeneratorFunction: (value) => kind(function* () {})(value) || isAsyncGenerator(value),
  isGeneratorObject: kind((function* () {})(), (async function* () {})()),
  isMap: kind(new Map()),
  isSet: kind(new Set()),
  isMapIterator: kind(new Map().entries()),
  isSetIterator: kind(new Set().entries()),
  isWeakMap: kind(new WeakMap()),
  isWeakSet: kind(new WeakSet()),
  isNativeError: kind(new Error()),
  isPromise: kind(Promise.resolve()),
  isProxy: kind(new Proxy({}, {})),
  isRegExp: kind(/x/),
  isTypedArray: (value) => ArrayBuffer.isView(value) && natives.typedTag(value) !== undefined,
  isExternal: () => false,
  isModuleNamespaceObject: () => false,
  isKeyObject: () => false,
  isCryptoKey: (value) => typeof CryptoKey === 'function' && value instanceof CryptoKey,
};
for (const name of ['Int8', 'Uint8', 'Uint8Clamped', 'Int16', 'Uint16', 'Int32', 'Uint32', 'Float32', 'Float64', 'BigInt64', 'BigUint64']) types[`is${name}Array`] = typed(`${name}Array`);

const styles = {
  reset: [0, 0], bold: [1, 22], dim: [2, 22], italic: [3, 23], underline: [4, 24], inverse: [7, 27], hidden: [8, 28], strikethrough: [9, 29],
  black: [30, 39], red: [31, 39], green: [32, 39], yellow: [33, 39], blue: [34, 39], magenta: [35, 39], cyan: [36, 39], white: [37, 39], gray: [90, 39], grey: [90, 39],
};
inspect.colors = styles;
const styleText = (format, text) => [format].flat().reduceRight((shown, name) => {
  if (styles[name] === undefined) throw Object.assign(new TypeError(`The argument 'format' must be one of: ${Object.keys(styles).join(', ')}`), { code: 'ERR_INVALID_ARG_VALUE' });
  return `\u001b[${styles[name][0]}m${shown}\u001b[${styles[name][1]}m`;
}, text);

const { promisify, callbackify, inherits, deprecate, debuglog, isArray, isBoolean, isNull, isNullOrUndefined, isNumber, isString, isSymbol, isUndefined, isRegExp, isObject, isDate, isError, isFunction, isPrimitive } = basic;
// What promisify makes of the timers.
for (const name of ['setTimeout', 'setImmediate']) {
  Object.defineProperty(globalThis[name], promisify.custom, { value: require('node/timers').promises[name], configurable: true });
}

module.exports = {
  inspect, format, types, parseArgs, styleText, promisify, callbackify, inherits, deprecate, debuglog, debug: debuglog,
  isDeepStrictEqual: (left, right) => require('web/comparisons').isDeepStrictEqual(left, right),
  formatWithOptions: (options, ...args) => natives.formatLine(args),
  stripVTControlCharacters: (text) => text.replace(/[\u001b\u009b][[()#;?]*(?:[0-9]{1,4}(?:;[0-9]{0,4})*)?[0-9A-ORZcf-nqry=><]/g, ''),
  toUSVString: (text) => String(text).toWellFormed(),
  TextEncoder, TextDecoder,
  isArray, isBoolean, isNull, isNullOrUndefined, isNumber, isString, isSymbol, isUndefined, isRegExp, isObject, isDate, isError, isFunction, isPrimitive,
  isBuffer: (value) => require('node/buffer').Buffer.isBuffer(value),
  aborted: (signal) => new Promise((resolve) => { if (signal.aborted) resolve(); else signal.addEventListener('abort', () => resolve(), { once: true }); }),
  _extend: (target, source) => (source === null || typeof source !== 'object' ? target : Object.assign(target, source)),
};
