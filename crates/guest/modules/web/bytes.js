// Node's `buffer` binding over the engine's natives.
const { slice, write, byteLength, find, compare } = natives.part('bytes');

const area = (view) => [view.buffer, view.byteOffset, view.byteLength];
// The engine reads no shared memory.
const unshared = (view) => (view.buffer instanceof ArrayBuffer ? view : new Uint8Array(new Uint8Array(view.buffer, view.byteOffset, view.byteLength)));
const ENCODINGS = ['ascii', 'utf8', 'base64', 'ucs2', 'latin1', 'hex', 'buffer', 'base64url'];
const outOfBounds = (message) => Object.assign(new RangeError(message), { code: 'ERR_OUT_OF_RANGE' });
const bounds = (length, start, end) => {
  const from = start === undefined ? 0 : Math.trunc(start);
  const to = end === undefined ? length : Math.min(Math.trunc(end), length);
  if (!(from >= 0) || !(to >= 0)) throw outOfBounds('Index out of range');
  if (from > length) throw outOfBounds('The value of "start" is out of range.');
  return [from, Math.max(to - from, 0)];
};
const slicer = (encoding) => function (start, end) {
  const [from, length] = bounds(this.length, start, end);
  return slice(encoding, this.buffer, this.byteOffset + from, length);
};
const UNITS_AT_ONCE = 4096;
const ucs2Slice = function (start, end) {
  const [from, length] = bounds(this.length, start, end);
  let text = '';
  const view = new DataView(this.buffer, this.byteOffset + from, length & ~1);
  for (let at = 0; at < view.byteLength;) {
    const units = [];
    for (; units.length < UNITS_AT_ONCE && at < view.byteLength; at += 2) units.push(view.getUint16(at, true));
    text += String.fromCharCode(...units);
  }
  return text;
};
const writer = (encoding) => function (text, offset = 0, length = this.length - offset) {
  if (typeof text !== 'string') throw Object.assign(new TypeError('argument must be a string'), { code: 'ERR_INVALID_ARG_TYPE' });
  if (!(offset >= 0 && offset <= this.length)) throw Object.assign(new RangeError('"offset" is outside of buffer bounds'), { code: 'ERR_BUFFER_OUT_OF_BOUNDS' });
  const room = Math.max(Math.min(length, this.length - offset), 0);
  return write(encoding, encoding === 'utf8' ? text.toWellFormed() : text, this.buffer, this.byteOffset + offset, room);
};
const encoded = (text, encoding) => {
  const name = ENCODINGS[encoding] ?? 'utf8';
  const most = name === 'utf8' ? byteLength(text.toWellFormed()) : name === 'ucs2' ? text.length * 2 : text.length;
  const made = new Uint8Array(most);
  return made.subarray(0, write(name, name === 'utf8' ? text.toWellFormed() : text, made.buffer, 0, most));
};
// Where the search begins; undefined when it can find nothing.
const begin = (length, needle, offset, forward) => {
  let at = Number.isNaN(offset) ? (forward ? 0 : length - 1) : offset;
  if (at < 0) {
    if (at + length >= 0) at += length;
    else if (forward || needle === 0) at = 0;
    else return undefined;
  }
  if (at + needle > length) {
    if (needle === 0) return length;
    if (forward) return undefined;
    at = length - needle;
  }
  return Math.trunc(at);
};
const indexOfBytes = (buffer, needle, offset, encoding, forward) => {
  const from = begin(buffer.length, needle.byteLength, offset, forward);
  if (from === undefined) return -1;
  if (needle.byteLength === 0) return from;
  if (buffer.length === 0 || from < 0) return -1;
  const step = ENCODINGS[encoding] === 'ucs2' ? 2 : 1;
  if (step === 2 && (buffer.length < 2 || needle.byteLength < 2)) return -1;
  return find(area(buffer), area(needle), step === 2 ? (from + (forward ? 1 : 0)) & ~1 : from, !!forward, step);
};
const swapper = (size) => (buffer) => {
  for (let at = 0; at + size <= buffer.length; at += size) buffer.subarray(at, at + size).reverse();
  return buffer;
};
const TOO_FAR = -2;
const fill = (buffer, value, start, end, encoding) => {
  if (start < 0 || end > buffer.length) return TOO_FAR;
  if (start >= end) return undefined;
  if (typeof value === 'number' || typeof value === 'boolean') {
    Uint8Array.prototype.fill.call(buffer, value & 255, start, end);
    return undefined;
  }
  const bytes = typeof value === 'string' ? Buffer().from(value, encoding) : new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (bytes.length === 0) return -1;
  const first = Math.min(bytes.length, end - start);
  Uint8Array.prototype.set.call(buffer, bytes.subarray(0, first), start);
  for (let have = first; have < end - start; have *= 2) buffer.copyWithin(start + have, start, start + Math.min(have, end - start - have));
  return undefined;
};
const Buffer = () => require('node/buffer').Buffer;
const viewed = (input) => (ArrayBuffer.isView(input) ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength) : new Uint8Array(input));

module.exports = {
  kMaxLength: 2 ** 32, kStringMaxLength: 0x1fffffe8,
  byteLengthUtf8: (text) => byteLength(text.toWellFormed()),
  createFromString: (text, encoding) => {
    const bytes = encoded(text, encoding);
    return new (require('node/buffer').FastBuffer)(bytes.buffer, 0, bytes.length);
  },
  compare: (left, right) => compare(area(unshared(left)), area(unshared(right))),
  compareOffset: (left, right, rightStart, leftStart, rightEnd, leftEnd) => {
    if (rightStart > right.byteLength) throw outOfBounds('The value of "sourceStart" is out of range.');
    if (leftStart > left.byteLength) throw outOfBounds('The value of "targetStart" is out of range.');
    const a = left.subarray(leftStart, leftEnd);
    const b = right.subarray(rightStart, rightEnd);
    return compare(area(a), area(b));
  },
  fill,
  indexOfBuffer: indexOfBytes,
  indexOfString: (buffer, text, offset, encoding, forward) => indexOfBytes(buffer, encoded(text, encoding), offset, encoding, forward),
  indexOfNumber: (buffer, number, offset, forward) => {
    const from = begin(buffer.length, 1, offset, forward);
    if (from === undefined || from < 0 || buffer.length === 0) return -1;
    return forward ? Uint8Array.prototype.indexOf.call(buffer, number & 255, from) : Uint8Array.prototype.lastIndexOf.call(buffer, number & 255, from);
  },
  swap16: swapper(2), swap32: swapper(4), swap64: swapper(8),
  isAscii: (input) => viewed(input).every((byte) => byte < 128),
  isUtf8: (input) => {
    try {
      new TextDecoder('utf-8', { fatal: true }).decode(viewed(input));
      return true;
    } catch {
      return false;
    }
  },
  asciiSlice: slicer('ascii'), base64Slice: slicer('base64'), base64urlSlice: slicer('base64url'), latin1Slice: slicer('latin1'), hexSlice: slicer('hex'), utf8Slice: slicer('utf8'), ucs2Slice,
  asciiWrite: writer('latin1'), base64Write: writer('base64'), base64urlWrite: writer('base64url'), latin1Write: writer('latin1'), hexWrite: writer('hex'), ucs2Write: writer('ucs2'), utf8Write: writer('utf8'),
  getZeroFillToggle: () => [1],
};
