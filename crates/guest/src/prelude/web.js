// The small part of the web platform that needs no host operation.
const notOfKind = (kind) => {
  const error = new TypeErrorCtor(`Value of "this" must be of type ${kind}`);
  error.code = 'ERR_INVALID_THIS';
  return error;
};
// What a kind of the web's shows: its name, and these of its prototype's members.
const showKind = (prototype, kind, names) => {
  defineProperty(prototype, SymbolCtor.toStringTag, { __proto__: null, value: kind, configurable: true });
  for (let i = 0; i < names.length; i++) defineProperty(prototype, names[i], { __proto__: null, enumerable: true });
};
let timeOrigin = 0;
const performancePrototype = {
  now() { ofPerformance(this); return native.now() - timeOrigin; },
  toJSON() { ofPerformance(this); return { timeOrigin }; },
  get timeOrigin() { ofPerformance(this); return timeOrigin; },
};
showKind(performancePrototype, 'Performance', []);
const performanceObject = create(performancePrototype);
const ofPerformance = (self) => { if (self !== performanceObject) throw notOfKind('Performance'); };
expose('performance', performanceObject);
method(Math, 'random', native.random);
// Where a class keeps what its decorators say of it.
defineProperty(SymbolCtor, 'metadata', { __proto__: null, value: SymbolCtor('Symbol.metadata') });

const RANDOM_BYTES_MAX = 65536;
const hexByte = (byte) => padStart(toRadix(byte, 16), 2, '0');
const cryptoPrototype = { get subtle() { ofCrypto(this); return loadModule('web/crypto').subtle; } };
showKind(cryptoPrototype, 'Crypto', []);
const cryptoObject = create(cryptoPrototype);
const ofCrypto = (self) => { if (self !== cryptoObject) throw notOfKind('Crypto'); };
const DOMExceptionCtor = global.DOMException;
method(cryptoPrototype, 'getRandomValues', function getRandomValues(array) {
  ofCrypto(this);
  if (arguments.length === 0) throw new TypeErrorCtor('The "typedArray" argument must be specified');
  if (typeof array !== 'object' || array === null || kindOf(array) !== 'typed' || indexOf(typedTag(array), 'Float') === 0) {
    throw new DOMExceptionCtor('getRandomValues needs a typed array of integers', 'TypeMismatchError');
  }
  const bytes = typedByteLength(array);
  if (bytes > RANDOM_BYTES_MAX) throw new DOMExceptionCtor(`at most ${RANDOM_BYTES_MAX} bytes at once`, 'QuotaExceededError');
  typedSet(new Uint8ArrayCtor(typedBuffer(array), typedByteOffset(array), bytes), new Uint8ArrayCtor(native.entropy(bytes)));
  return array;
});
method(cryptoPrototype, 'randomUUID', function randomUUID() {
  ofCrypto(this);
  const bytes = new Uint8ArrayCtor(native.entropy(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  let text = '';
  for (let i = 0; i < 16; i++) text += (i === 4 || i === 6 || i === 8 || i === 10 ? '-' : '') + hexByte(bytes[i]);
  return text;
});
showKind(cryptoPrototype, 'Crypto', ['getRandomValues', 'randomUUID']);
expose('crypto', cryptoObject);

class TextEncoder {
  #made = true;
  static #own(value) { if (typeof value !== 'object' || value === null || !(#made in value)) throw notOfKind('TextEncoder'); }
  get encoding() { TextEncoder.#own(this); return 'utf-8'; }
  encodeInto(source, destination) {
    TextEncoder.#own(this);
    const text = wellFormed(`${source}`);
    const room = typedByteLength(destination);
    let read = 0;
    let written = 0;
    while (read < text.length) {
      const unit = charCodeAt(text, read);
      const bytes = unit < 0x80 ? 1 : unit < 0x800 ? 2 : unit >= 0xd800 && unit < 0xdc00 ? 4 : 3;
      if (written + bytes > room) break;
      read += bytes === 4 ? 2 : 1;
      written += bytes;
    }
    typedSet(destination, new Uint8ArrayCtor(native.utf8Encode(slice(text, 0, read))));
    return { read, written };
  }
  encode(text = '') { TextEncoder.#own(this); return new Uint8ArrayCtor(native.utf8Encode(wellFormed(`${text}`))); }
}
const UTF8_LABELS = { __proto__: null, 'utf-8': true, utf8: true, 'unicode-1-1-utf-8': true, unicode11utf8: true, unicode20utf8: true, 'x-unicode20utf8': true };
const byteRange = (input) => {
  const what = typeof input === 'object' && input !== null ? kindOf(input) : '';
  if (what === 'buffer') return { buffer: input, offset: 0, length: bufferLength(input) };
  if (what === 'typed') return { buffer: typedBuffer(input), offset: typedByteOffset(input), length: typedByteLength(input) };
  if (what === 'view') return { buffer: viewBuffer(input), offset: viewOffset(input), length: viewLength(input) };
  const error = new TypeErrorCtor('The "input" argument must be an instance of ArrayBuffer or ArrayBufferView.');
  error.code = 'ERR_INVALID_ARG_TYPE';
  throw error;
};
const notEncoded = (encoding) => {
  const error = new TypeErrorCtor(`The encoded data was not valid for encoding ${encoding}`);
  error.code = 'ERR_ENCODING_INVALID_ENCODED_DATA';
  return error;
};
class TextDecoder {
  #fatal;
  #keepMark;
  // Of a stream: the bytes of a character whose end is still to come, and whether a mark may still begin the text.
  #held = new Uint8ArrayCtor(0);
  #begun = false;
  // Of another encoding: its name, and the decoder that a module has.
  #encoding = 'utf-8';
  #other;
  constructor(label = 'utf-8', options = {}) {
    const asked = `${label}`;
    this.#fatal = !!options?.fatal;
    this.#keepMark = !!options?.ignoreBOM;
    if (UTF8_LABELS[toLowerCase(asked)]) return;
    const encodings = loadModule('web/encodings');
    const name = encodings.encodingName(asked);
    if (typeof name !== 'string') {
      const error = new RangeErrorCtor(`The "${asked}" encoding is not supported`);
      error.code = 'ERR_ENCODING_NOT_SUPPORTED';
      throw error;
    }
    if (name === 'utf-8') return;
    this.#encoding = name;
    this.#other = encodings.decoderOf(name, this.#fatal, this.#keepMark);
  }
  get encoding() { return this.#encoding; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#keepMark; }
  decode(input = undefined, options = undefined) {
    const more = !!options?.stream;
    let range = input === undefined ? { buffer: new ArrayBufferCtor(0), offset: 0, length: 0 } : byteRange(input);
    if (this.#other !== undefined) {
      const text = this.#other(bufferSlice(range.buffer, range.offset, range.offset + range.length), more);
      if (typeof text !== 'string') throw notEncoded(this.#encoding);
      return text;
    }
    const held = typedLength(this.#held);
    if (held > 0) {
      const joined = new Uint8ArrayCtor(held + range.length);
      typedSet(joined, this.#held);
      typedSet(joined, new Uint8ArrayCtor(range.buffer, range.offset, range.length), held);
      range = byteRange(joined);
    }
    const tail = more ? native.utf8Tail(range.buffer, range.offset, range.length) : 0;
    const end = range.offset + range.length;
    this.#held = new Uint8ArrayCtor(bufferSlice(range.buffer, end - tail, end));
    const begun = this.#begun;
    this.#begun = more && (begun || range.length > tail);
    let text;
    try {
      text = native.utf8Decode(range.buffer, range.offset, range.length - tail, this.#fatal);
    } catch (error) {
      if (!this.#fatal) throw error;
      this.#held = new Uint8ArrayCtor(0);
      this.#begun = false;
      throw notEncoded('utf-8');
    }
    return !begun && !this.#keepMark && charCodeAt(text, 0) === 0xfeff ? slice(text, 1) : text;
  }
}
showKind(TextEncoder.prototype, 'TextEncoder', ['encoding', 'encode', 'encodeInto']);
showKind(TextDecoder.prototype, 'TextDecoder', ['encoding', 'fatal', 'ignoreBOM', 'decode']);
expose('TextEncoder', TextEncoder);
expose('TextDecoder', TextDecoder);

expose('structuredClone', function structuredClone(value, options) {
  if (arguments.length === 0) throw new TypeErrorCtor("The \"value\" argument must be specified");
  return loadModule('web/clone').structuredClone(value, options);
});
