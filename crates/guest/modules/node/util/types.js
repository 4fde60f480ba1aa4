// What kinds of values there are for Node.
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
  isKeyObject: (value) => natives.isLoaded('web/keys') && value instanceof require('web/keys').KeyObject,
  isCryptoKey: (value) => natives.isLoaded('web/crypto') && value instanceof require('web/crypto').CryptoKey,
  isEventTarget: (value) => value instanceof EventTarget,
};
for (const name of ['Int8', 'Uint8', 'Uint8Clamped', 'Int16', 'Uint16', 'Int32', 'Uint32', 'Float32', 'Float64', 'BigInt64', 'BigUint64']) types[`is${name}Array`] = typed(`${name}Array`);
module.exports = types;
