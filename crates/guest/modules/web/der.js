// DER as keys need it: a value is `{ tag, content, raw }`, the content of a constructed one a list of values, `raw` all of its bytes.
const SEQUENCE = 0x30;
const INTEGER = 0x02;
const BITS = 0x03;
const OCTETS = 0x04;
const NULL = 0x05;
const OID = 0x06;
const CONSTRUCTED = 0x20;

class Malformed extends Error {}
const read = (bytes) => {
  const [value, end] = readAt(new Uint8Array(bytes), 0);
  if (end !== bytes.byteLength) throw new Malformed('bytes follow the key');
  return value;
};
const readAt = (bytes, at) => {
  const tag = bytes[at];
  let length = bytes[at + 1];
  let from = at + 2;
  if (tag === undefined || length === undefined) throw new Malformed('the key is cut off');
  if (length >= 0x80) {
    const count = length & 0x7f;
    if (count === 0 || count > 4) throw new Malformed('a length of the key is none');
    length = 0;
    for (let i = 0; i < count; i++) length = length * 256 + (bytes[from + i] ?? NaN);
    from += count;
  }
  const end = from + length;
  if (!(end <= bytes.length)) throw new Malformed('the key is cut off');
  const raw = bytes.subarray(at, end);
  if ((tag & CONSTRUCTED) === 0) return [{ tag, content: bytes.slice(from, end), raw }, end];
  const content = [];
  for (let next = from; next < end;) {
    const [value, after] = readAt(bytes.subarray(0, end), next);
    content.push(value);
    next = after;
  }
  return [{ tag, content, raw }, end];
};
const joined = (parts) => {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};
const write = (tag, ...parts) => {
  const content = joined(parts.map((part) => new Uint8Array(part)));
  const length = [];
  for (let rest = content.length; rest > 0; rest = Math.floor(rest / 256)) length.unshift(rest % 256);
  return joined([[tag], content.length < 0x80 ? [content.length] : [0x80 | length.length, ...length], content]);
};
// A number that is not negative: big-endian, with no more zeros before it than it needs.
const integer = (bytes) => {
  const all = stripped(bytes);
  return write(INTEGER, all[0] >= 0x80 ? [0] : [], all);
};
const stripped = (bytes) => {
  const all = new Uint8Array(bytes);
  let from = 0;
  while (from < all.length - 1 && all[from] === 0) from += 1;
  return all.length === 0 ? new Uint8Array(1) : all.subarray(from);
};
const padded = (bytes, length) => {
  const all = stripped(bytes);
  if (all.length > length) throw new Malformed('a number of the key is too large');
  const made = new Uint8Array(length);
  made.set(all, length - all.length);
  return made;
};
const oid = (text) => {
  const [first, second, ...rest] = text.split('.').map(Number);
  const bytes = [];
  for (const arc of [first * 40 + second, ...rest]) {
    const groups = [arc & 0x7f];
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128)) groups.unshift((left & 0x7f) | 0x80);
    bytes.push(...groups);
  }
  return write(OID, bytes);
};
const oidText = (value) => {
  if (value?.tag !== OID) throw new Malformed('the key names no algorithm');
  const arcs = [];
  let arc = 0;
  for (const byte of value.content) {
    arc = arc * 128 + (byte & 0x7f);
    if (byte < 0x80) {
      arcs.push(arc);
      arc = 0;
    }
  }
  const first = Math.min(2, Math.floor(arcs[0] / 40));
  return [first, arcs[0] - first * 40, ...arcs.slice(1)].join('.');
};
const expect = (value, tag) => {
  if (value?.tag !== tag) throw new Malformed('the key has another form');
  return value.content;
};
module.exports = { SEQUENCE, INTEGER, BITS, OCTETS, NULL, OID, Malformed, read, write, integer, stripped, padded, oid, oidText, expect, joined };
