// feross/buffer, and what Node has that it lacks: base64url, a few exports.
const { Buffer, SlowBuffer, INSPECT_MAX_BYTES, kMaxLength } = require('buffer/index.js');

const isUrlSafe = (encoding) => typeof encoding === 'string' && encoding.toLowerCase() === 'base64url';
const standard = (text) => text.replace(/-/g, '+').replace(/_/g, '/');
const urlSafe = (text) => text.replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');

// The package reads `encoding` where it dispatches; each of these hands it base64 instead.
const { from, byteLength, isEncoding, alloc } = Buffer;
const { toString, write, fill, indexOf, lastIndexOf, includes } = Buffer.prototype;
const method = (object, name, value) => Object.defineProperty(object, name, { value, writable: true, configurable: true, enumerable: true });
const isUtf8Name = (encoding) => encoding === undefined || /^utf-?8$/i.test(encoding);
// The engine is faster at UTF-8, and replaces what is none as the standard says.
const { utf8Encode, utf8Decode } = natives;
method(Buffer, 'from', function (value, encoding, length) {
  if (typeof value === 'string' && isUtf8Name(encoding)) return from(utf8Encode(value.toWellFormed()));
  return typeof value === 'string' && isUrlSafe(encoding) ? from(standard(value), 'base64') : from(value, encoding, length);
});
method(Buffer, 'byteLength', function (value, encoding) {
  return isUrlSafe(encoding) && typeof value === 'string' ? byteLength(standard(value), 'base64') : byteLength(value, encoding);
});
method(Buffer, 'isEncoding', (encoding) => isUrlSafe(encoding) || isEncoding(encoding));
method(Buffer, 'alloc', (size, filling, encoding) => (isUrlSafe(encoding) && typeof filling === 'string' ? alloc(size, standard(filling), 'base64') : alloc(size, filling, encoding)));
method(Buffer, 'copyBytesFrom', function (view, offset = 0, length = view.length - offset) {
  const part = view.subarray(offset, offset + length);
  return from(new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
});
method(Buffer.prototype, 'toString', function (encoding, start, end) {
  if (isUrlSafe(encoding)) return urlSafe(toString.call(this, 'base64', start, end));
  if (!isUtf8Name(encoding)) return toString.apply(this, arguments);
  const part = start === undefined ? this : this.subarray(Math.max(0, start), end === undefined ? this.length : Math.max(0, end));
  return utf8Decode(part.buffer, part.byteOffset, part.byteLength, false);
});
method(Buffer.prototype, 'write', function (text, ...rest) {
  const last = rest.length - 1;
  if (last >= 0 && isUrlSafe(rest[last])) return write.call(this, standard(text), ...rest.slice(0, last), 'base64');
  return write.call(this, text, ...rest);
});
// A plain Uint8Array is as good as a Buffer, and nothing is found where the search begins.
const asBuffer = (value) => (value instanceof Uint8Array && !Buffer.isBuffer(value) ? from(value.buffer, value.byteOffset, value.byteLength) : value);
const { compare, equals } = Buffer.prototype;
method(Buffer.prototype, 'compare', function (other, ...rest) { return compare.call(this, asBuffer(other), ...rest); });
method(Buffer.prototype, 'equals', function (other) { return equals.call(this, asBuffer(other)); });
const indexOfAny = function (value, offset, ...rest) {
  if (value === '' && (offset === undefined || typeof offset === 'number')) return Math.min(Math.max(offset ?? 0, 0), this.length);
  return indexOf.call(this, value, offset, ...rest);
};
for (const [name, original] of [['fill', fill], ['indexOf', indexOfAny], ['lastIndexOf', lastIndexOf], ['includes', includes]]) {
  method(Buffer.prototype, name, function (value, ...rest) {
    const last = rest.length - 1;
    if (last < 0 || typeof value !== 'string' || !isUrlSafe(rest[last])) return original.call(this, value, ...rest);
    return original.call(this, standard(value), ...rest.slice(0, last), 'base64');
  });
}

const bytesOf = (input) => (ArrayBuffer.isView(input) ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength) : new Uint8Array(input));
const isAscii = (input) => bytesOf(input).every((byte) => byte < 128);
const isUtf8 = (input) => {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytesOf(input));
    return true;
  } catch {
    return false;
  }
};

module.exports = {
  Buffer, SlowBuffer, INSPECT_MAX_BYTES, kMaxLength, kStringMaxLength: 0x1fffffe8,
  constants: { MAX_LENGTH: kMaxLength, MAX_STRING_LENGTH: 0x1fffffe8 },
  transcode: (source, fromEncoding, toEncoding) => from(from(source).toString(fromEncoding), toEncoding),
  isAscii, isUtf8, atob, btoa,
  get Blob() { return require('web/blob').Blob; },
  get File() { return require('web/blob').File; },
};
