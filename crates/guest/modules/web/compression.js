// CompressionStream and DecompressionStream over the engine's natives. What comes in is kept until the stream ends.
const { compress, decompress } = natives.part('compression');

const FORMATS = ['gzip', 'deflate', 'deflate-raw'];
const LEVEL = 6;
const bytesOf = (chunk) => {
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk);
  throw new TypeError('The chunk must be an ArrayBuffer or a view of one');
};
const joined = (parts) => {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all.buffer;
};
const formatOf = (format, name) => {
  const text = `${format}`;
  if (!FORMATS.includes(text)) throw Object.assign(new TypeError(`Failed to construct '${name}': the format must be one of ${FORMATS.join(', ')}; received ${text}`), { code: 'ERR_INVALID_ARG_VALUE' });
  return text;
};
const through = (work) => {
  const parts = [];
  return new TransformStream({
    // A copy: whoever wrote the chunk may use its buffer again.
    transform(chunk) { parts.push(bytesOf(chunk).slice()); },
    flush(controller) {
      const made = new Uint8Array(work(joined(parts.splice(0))));
      if (made.length > 0) controller.enqueue(made);
    },
  });
};
const expand = (format, data) => {
  const [made, used, wrong] = decompress(format, Number.MAX_SAFE_INTEGER, data);
  if (wrong === 'short') throw new TypeError('The compressed data ends early');
  if (wrong !== '') throw new TypeError('The compressed data was not valid');
  if (used !== data.byteLength) throw new TypeError('Junk found after the end of the compressed data');
  return made;
};

class CompressionStream {
  #transform;
  constructor(format) {
    const known = formatOf(format, 'CompressionStream');
    this.#transform = through((data) => compress(known, LEVEL, 0, data));
  }
  get readable() { return this.#transform.readable; }
  get writable() { return this.#transform.writable; }
  get [Symbol.toStringTag]() { return 'CompressionStream'; }
}
class DecompressionStream {
  #transform;
  constructor(format) {
    const known = formatOf(format, 'DecompressionStream');
    this.#transform = through((data) => expand(known, data));
  }
  get readable() { return this.#transform.readable; }
  get writable() { return this.#transform.writable; }
  get [Symbol.toStringTag]() { return 'DecompressionStream'; }
}
for (const made of [CompressionStream, DecompressionStream]) for (const name of ['readable', 'writable']) Object.defineProperty(made.prototype, name, { enumerable: true });

module.exports = { CompressionStream, DecompressionStream };
