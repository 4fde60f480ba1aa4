// Node's `string_decoder` binding: a decoder is a few bytes, of which the first four hold the part of a character whose end is still to come.

const [START, END, MISSING, BUFFERED, ENCODING, SIZE] = [0, 4, 4, 5, 6, 7];
const encodings = ['ascii', 'utf8', 'base64', 'utf16le', 'latin1', 'hex', 'buffer', 'base64url'];
// Both ask for each other.
const viewOf = (view) => Buffer.from(view.buffer, view.byteOffset, view.byteLength);

// How many bytes at the end begin a character, and how many that one has.
const utf8Tail = (bytes) => {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back];
    if ((byte & 0xc0) === 0x80) continue;
    const size = (byte & 0xe0) === 0xc0 ? 2 : (byte & 0xf0) === 0xe0 ? 3 : (byte & 0xf8) === 0xf0 ? 4 : 1;
    return size <= back ? [0, 0] : [back, size];
  }
  return [0, 0];
};
const isHigh = (byte) => byte >= 0xd8 && byte <= 0xdb;
const tails = {
  utf8: utf8Tail,
  utf16le: (bytes, held) => {
    if (bytes.length % 2 === 1) return held === 2 && bytes.length === 3 && isHigh(bytes[1]) ? [3, 4] : [1, 2];
    // The first half of a pair waits for the second, unless it came in two parts itself.
    if (held === 1 && bytes.length === 2) return [0, 0];
    return bytes.length > 0 && isHigh(bytes[bytes.length - 1]) ? [2, 4] : [0, 0];
  },
  base64: (bytes) => (bytes.length % 3 === 0 ? [0, 0] : [bytes.length % 3, 3]),
};
tails.base64url = tails.base64;

const decode = (state, view) => {
  const encoding = encodings[state[ENCODING]];
  const given = viewOf(view);
  const tail = tails[encoding];
  if (tail === undefined) return given.toString(encoding);
  const all = state[BUFFERED] === 0 ? given : Buffer.concat([state.subarray(START, START + state[BUFFERED]), given]);
  const [held, size] = tail(all, state[BUFFERED]);
  const end = all.length - held;
  const text = all.toString(encoding, 0, end);
  for (let i = 0; i < held; i++) state[START + i] = all[end + i];
  state[BUFFERED] = held;
  state[MISSING] = held === 0 ? 0 : size - held;
  return text;
};
const flush = (state) => {
  const encoding = encodings[state[ENCODING]];
  const held = state[BUFFERED];
  // Half a unit of UTF-16 is none.
  const text = state.toString(encoding, START, START + (encoding === 'utf16le' ? held - (held % 2) : held));
  state[BUFFERED] = 0;
  state[MISSING] = 0;
  return text;
};
module.exports = { encodings, decode, flush, kIncompleteCharactersStart: START, kIncompleteCharactersEnd: END, kMissingBytes: MISSING, kBufferedBytes: BUFFERED, kEncodingField: ENCODING, kSize: SIZE, kNumFields: SIZE };
