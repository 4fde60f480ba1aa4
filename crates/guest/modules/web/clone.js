// structuredClone of the web's standard, with what may be transferred.
const { kindOf, typedTag } = natives;

const cannot = (value) => new DOMException(`${typeof value === 'symbol' ? String(value) : typeof value === 'object' ? `#<${value?.constructor?.name || 'Object'}>` : value} could not be cloned.`, 'DataCloneError');
const ERRORS = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
const own = (object, key) => Object.getOwnPropertyDescriptor(object, key)?.value;
const define = (to, key, value) => { Object.defineProperty(to, key, { value, writable: true, enumerable: true, configurable: true }); };
const inherited = (error, key) => {
  for (let at = error; at !== null; at = Object.getPrototypeOf(at)) {
    const found = Object.getOwnPropertyDescriptor(at, key);
    if (found !== undefined) return found.value;
  }
  return undefined;
};
const errorOf = (error, remember, clone) => {
  const name = inherited(error, 'name');
  const message = inherited(error, 'message');
  const copy = remember(new (ERRORS[name] ?? Error)());
  if (message !== undefined) Object.defineProperty(copy, 'message', { value: String(message), writable: true, configurable: true });
  if (typeof error.stack === 'string') Object.defineProperty(copy, 'stack', { value: error.stack, writable: true, configurable: true });
  if (Object.hasOwn(error, 'cause')) Object.defineProperty(copy, 'cause', { value: clone(own(error, 'cause')), writable: true, configurable: true });
  return copy;
};
const BOXES = { number: Number, string: String, boolean: Boolean, bigint: BigInt };
const cloner = (seen) => {
  const clone = (value) => {
    if (typeof value === 'function' || typeof value === 'symbol') throw cannot(value);
    if (typeof value !== 'object' || value === null) return value;
    if (seen.has(value)) return seen.get(value);
    const remember = (copy) => {
      seen.set(value, copy);
      return copy;
    };
    const kind = kindOf(value);
    switch (kind) {
      case 'array': {
        const copy = remember([]);
        copy.length = value.length;
        for (const key of Object.keys(value)) define(copy, key, clone(value[key]));
        return copy;
      }
      case 'object': case 'arguments': {
        if (natives.isLoaded('web/blob') && value instanceof require('web/blob').Blob) {
          const { File } = require('web/blob');
          return remember(value instanceof File ? new File([value], value.name, { type: value.type, lastModified: value.lastModified }) : value.slice(0, value.size, value.type));
        }
        if (natives.isLoaded('web/temporal') && require('web/temporal').isTemporal(value)) throw cannot(value);
        // One frame a level: what is nested deeply is cloned before the stack ends.
        const copy = remember({});
        for (const key of Object.keys(value)) define(copy, key, clone(value[key]));
        return copy;
      }
      case 'map': {
        const copy = remember(new Map());
        for (const [key, item] of [...Map.prototype.entries.call(value)]) copy.set(clone(key), clone(item));
        return copy;
      }
      case 'set': {
        const copy = remember(new Set());
        for (const item of [...Set.prototype.values.call(value)]) copy.add(clone(item));
        return copy;
      }
      case 'date': return remember(new Date(Date.prototype.getTime.call(value)));
      case 'regexp': return remember(new RegExp(value.source, value.flags));
      case 'error': return errorOf(value, remember, clone);
      case 'domexception': return remember(new DOMException(value.message, value.name));
      case 'number': case 'string': case 'boolean': case 'bigint': return remember(Object(BOXES[kind].prototype.valueOf.call(value)));
      case 'buffer':
        if (value.detached) throw cannot(value);
        return remember(value.resizable ? resized(value) : value.slice(0));
      case 'sharedbuffer': return remember(value);
      case 'typed': return remember(new globalThis[typedTag(value)](clone(value.buffer), value.byteOffset, value.length));
      case 'view': return remember(new DataView(clone(value.buffer), value.byteOffset, value.byteLength));
      default: throw cannot(value);
    }
  };
  return clone;
};
const resized = (buffer) => {
  const copy = new ArrayBuffer(buffer.byteLength, { maxByteLength: buffer.maxByteLength });
  new Uint8Array(copy).set(new Uint8Array(buffer));
  return copy;
};
const structuredClone = (value, options) => {
  if (options !== undefined && options !== null && typeof options !== 'object') throw new TypeError('The "options" argument must be of type object');
  const transfer = options?.transfer === undefined ? [] : [...options.transfer];
  const seen = new Map();
  for (const one of transfer) {
    if (typeof one !== 'object' || one === null) throw new TypeError('Found invalid object in transferList');
    if (kindOf(one) !== 'buffer' || one.detached || seen.has(one)) throw new DOMException('Found invalid value in transferList', 'DataCloneError');
    seen.set(one, undefined);
  }
  // What a transferred buffer becomes is known before anything is taken from it.
  const moved = new Map();
  for (const one of transfer) moved.set(one, one.resizable ? resized(one) : one.slice(0));
  const made = cloner(new Map(moved))(value);
  for (const one of transfer) one.transfer(0);
  return made;
};
module.exports = { structuredClone };
