// What the prelude uses of the language, taken before any script can change it. Nothing below calls a method by its name on a
// shared prototype, iterates with for-of, or spreads.
const { apply, ownKeys, getOwnPropertyDescriptor, getPrototypeOf, defineProperty, construct } = Reflect;
const { bind, call } = Function.prototype;
const uncurry = (method) => apply(bind, call, [method]);
const getter = (prototype, key) => uncurry(getOwnPropertyDescriptor(prototype, key).get);

const { Array: ArrayCtor, Error: ErrorCtor, TypeError: TypeErrorCtor, RangeError: RangeErrorCtor, Map: MapCtor, Set: SetCtor, Date: DateCtor, RegExp: RegExpCtor, Promise: PromiseCtor, Proxy: ProxyCtor, Uint8Array: Uint8ArrayCtor, Object: ObjectCtor, Number: NumberCtor, String: StringCtor, Symbol: SymbolCtor } = globalThis;
const global = globalThis;
const { toStringTag, toPrimitive, dispose } = SymbolCtor;
const { stringify, parse } = JSON;
const { parseInt, parseFloat } = global;
const { isArray } = ArrayCtor;
const { is, create, isExtensible, keys: enumerableKeys, getOwnPropertySymbols } = ObjectCtor;
const { isFinite: isFiniteNumber, isInteger } = NumberCtor;
const { floor, min, max, trunc, round, sqrt } = Math;
const now = DateCtor.now;
const arrayPrototype = ArrayCtor.prototype;
const objectPrototype = ObjectCtor.prototype;
const functionPrototype = Function.prototype;

const slice = uncurry(StringCtor.prototype.slice);
const indexOf = uncurry(StringCtor.prototype.indexOf);
const split = uncurry(StringCtor.prototype.split);
const repeat = uncurry(StringCtor.prototype.repeat);
const padStart = uncurry(StringCtor.prototype.padStart);
const padEnd = uncurry(StringCtor.prototype.padEnd);
const charCodeAt = uncurry(StringCtor.prototype.charCodeAt);
const codePointAt = uncurry(StringCtor.prototype.codePointAt);
const normalize = uncurry(StringCtor.prototype.normalize);
const toLowerCase = uncurry(StringCtor.prototype.toLowerCase);
const trim = uncurry(StringCtor.prototype.trim);
const wellFormed = uncurry(StringCtor.prototype.toWellFormed);
const toFixed = uncurry(NumberCtor.prototype.toFixed);
const toRadix = uncurry(NumberCtor.prototype.toString);
const symbolToString = uncurry(SymbolCtor.prototype.toString);
const functionToString = uncurry(Function.prototype.toString);
const hasOwn = uncurry(objectPrototype.hasOwnProperty);
const isEnumerable = uncurry(objectPrototype.propertyIsEnumerable);
const dateGetTime = uncurry(DateCtor.prototype.getTime);
const dateToISO = uncurry(DateCtor.prototype.toISOString);
const regexSource = getter(RegExpCtor.prototype, 'source');
const regexFlags = getter(RegExpCtor.prototype, 'flags');
const regexExec = uncurry(RegExpCtor.prototype.exec);
const recordedStack = getter(ErrorCtor.prototype, 'stack');
const mapGet = uncurry(MapCtor.prototype.get);
const mapSet = uncurry(MapCtor.prototype.set);
const mapHas = uncurry(MapCtor.prototype.has);
const mapDelete = uncurry(MapCtor.prototype.delete);
const mapSize = getter(MapCtor.prototype, 'size');
const mapForEach = uncurry(MapCtor.prototype.forEach);
const setSize = getter(SetCtor.prototype, 'size');
const setForEach = uncurry(SetCtor.prototype.forEach);
const setAdd = uncurry(SetCtor.prototype.add);
const setHas = uncurry(SetCtor.prototype.has);
const typedArrayPrototype = getPrototypeOf(Uint8ArrayCtor.prototype);
const typedTag = getter(typedArrayPrototype, SymbolCtor.toStringTag);
const typedLength = getter(typedArrayPrototype, 'length');
const typedByteLength = getter(typedArrayPrototype, 'byteLength');
const typedByteOffset = getter(typedArrayPrototype, 'byteOffset');
const typedBuffer = getter(typedArrayPrototype, 'buffer');
const typedSet = uncurry(typedArrayPrototype.set);
const bufferLength = getter(ArrayBuffer.prototype, 'byteLength');
const bufferDetached = getter(ArrayBuffer.prototype, 'detached');
const bufferSlice = uncurry(ArrayBuffer.prototype.slice);
const viewBuffer = getter(DataView.prototype, 'buffer');
const viewOffset = getter(DataView.prototype, 'byteOffset');
const viewLength = getter(DataView.prototype, 'byteLength');
const numberValue = uncurry(NumberCtor.prototype.valueOf);
const stringValue = uncurry(StringCtor.prototype.valueOf);
const bigintValue = uncurry(BigInt.prototype.valueOf);
const symbolValue = uncurry(SymbolCtor.prototype.valueOf);
const sort = uncurry(arrayPrototype.sort);
const booleanValue = uncurry(Boolean.prototype.valueOf);
const TypedArrays = {
  Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array, BigInt64Array, BigUint64Array,
};
const Errors = { Error: ErrorCtor, EvalError, RangeError: RangeErrorCtor, ReferenceError, SyntaxError, TypeError: TypeErrorCtor, URIError };
const ArrayBufferCtor = ArrayBuffer;
const DataViewCtor = DataView;

// Kinds of objects by the engine's own class numbers, which no script can forge.
const classId = native.classId;
const kind = { __proto__: null };
const sample = (name, object) => { kind[classId(object)] = name; };
sample('object', {});
sample('array', []);
sample('error', new ErrorCtor());
sample('number', new NumberCtor(0));
sample('string', new StringCtor(''));
sample('boolean', new Boolean(false));
sample('symbol', ObjectCtor(SymbolCtor()));
sample('bigint', ObjectCtor(0n));
sample('date', new DateCtor(0));
sample('regexp', /x/);
sample('arguments', (function () { return arguments; })());
sample('arguments', new Function('return arguments')());
sample('map', new MapCtor());
sample('set', new SetCtor());
sample('weakmap', new WeakMap());
sample('weakset', new WeakSet());
sample('weakref', new WeakRef({}));
sample('promise', new PromiseCtor(() => {}));
sample('proxy', new ProxyCtor({}, {}));
sample('buffer', new ArrayBufferCtor(0));
sample('view', new DataViewCtor(new ArrayBufferCtor(0)));
sample('mapiterator', new MapCtor().keys());
sample('setiterator', new SetCtor().keys());
sample('generator', (function* () {})());
sample('asyncgenerator', (async function* () {})());
sample('genfunction', function* () {});
sample('asyncfunction', async () => {});
sample('asyncgenfunction', async function* () {});
if (typeof SharedArrayBuffer === 'function') sample('sharedbuffer', new SharedArrayBuffer(0));
for (const name in TypedArrays) sample('typed', new TypedArrays[name](0));
// The web's own exceptions are no errors of the language.
sample('domexception', new DOMException());
const domName = getter(DOMException.prototype, 'name');
const domMessage = getter(DOMException.prototype, 'message');
const kindOf = (object) => kind[classId(object)] ?? 'object';
const proxyClass = classId(new ProxyCtor({}, {}));
const isProxy = (object) => classId(object) === proxyClass;

// A global as the language defines its own: writable, configurable, not enumerable.
const expose = (name, value) => defineProperty(global, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });
const method = (object, name, value) => defineProperty(object, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });

// JSON that another parser accepts too: JSON.stringify writes half surrogate pairs as escapes that are no text.
const wellFormedValues = (key, value) => (typeof value === 'string' ? wellFormed(value) : value);
const jsonText = (value) => {
  const text = stringify(value);
  return typeof text === 'string' && indexOf(text, '\\ud') >= 0 ? stringify(value, wellFormedValues) : text;
};
const errorOf = (name, message) => {
  const error = new ErrorCtor(message);
  method(error, 'name', name);
  return error;
};
