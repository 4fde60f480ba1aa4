// CompressionStream and DecompressionStream over the engine's streams: each chunk gives what it can.
const { openStream, stepStream, closeStream } = natives.part('compression');
const { Z_NO_FLUSH, Z_FINISH, Z_STREAM_END } = require('web/zlib-constants');

const FORMATS = { gzip: 'gzip', deflate: 'zlib', 'deflate-raw': 'raw' };
const LEVEL = 6;
const WINDOW_BITS = 15;
const CHUNK_BYTES = 16384;
const NOTHING = new ArrayBuffer(0);
const viewOf = (chunk) => {
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk);
  throw new TypeError('The chunk must be an ArrayBuffer or a view of one');
};
const formatOf = (format, name) => {
  const text = `${format}`;
  if (!Object.hasOwn(FORMATS, text)) throw Object.assign(new TypeError(`Failed to construct '${name}': the format must be one of ${Object.keys(FORMATS).join(', ')}; received ${text}`), { code: 'ERR_INVALID_ARG_VALUE' });
  return FORMATS[text];
};
// One that nobody reads to its end gives its place back when it is collected.
const forgotten = new FinalizationRegistry((place) => { if (place.stream >= 0) closeStream(place.stream); });
// What a chunk comes to; `packs` says which way.
const through = (format, packs) => {
  const place = { stream: -1 };
  let ended = false;
  const work = (chunk, flush, controller) => {
    if (place.stream < 0) place.stream = openStream(packs ? 'deflate' : 'inflate', format, LEVEL, WINDOW_BITS, 0, NOTHING);
    let at = 0;
    for (;;) {
      const room = new Uint8Array(CHUNK_BYTES);
      const [used, made, code, wrong] = stepStream(place.stream, flush, chunk.buffer, room.buffer, [chunk.byteOffset + at, chunk.length - at, 0, CHUNK_BYTES]);
      at += used;
      if (wrong !== '') throw new TypeError(`The compressed data was not valid: ${wrong}`);
      if (made > 0) controller.enqueue(room.slice(0, made));
      ended = code === Z_STREAM_END;
      if (made < CHUNK_BYTES || ended) break;
    }
    if (at < chunk.length) throw new TypeError('Junk found after the end of the compressed data');
  };
  const close = () => {
    if (place.stream >= 0) closeStream(place.stream);
    place.stream = -1;
  };
  const guarded = (chunk, flush, controller) => {
    try {
      work(chunk, flush, controller);
    } catch (error) {
      close();
      throw error;
    }
  };
  const transform = new TransformStream({
    transform(given, controller) {
      const chunk = viewOf(given);
      if (ended && chunk.length > 0) throw new TypeError('Junk found after the end of the compressed data');
      guarded(chunk, Z_NO_FLUSH, controller);
    },
    flush(controller) {
      if (packs) guarded(new Uint8Array(0), Z_FINISH, controller);
      close();
      if (!ended) throw new TypeError('The compressed data ends early');
    },
    cancel: close,
  });
  forgotten.register(transform, place);
  return transform;
};

class CompressionStream {
  #transform;
  constructor(format) { this.#transform = through(formatOf(format, 'CompressionStream'), true); }
  get readable() { return this.#transform.readable; }
  get writable() { return this.#transform.writable; }
  get [Symbol.toStringTag]() { return 'CompressionStream'; }
}
class DecompressionStream {
  #transform;
  constructor(format) { this.#transform = through(formatOf(format, 'DecompressionStream'), false); }
  get readable() { return this.#transform.readable; }
  get writable() { return this.#transform.writable; }
  get [Symbol.toStringTag]() { return 'DecompressionStream'; }
}
for (const made of [CompressionStream, DecompressionStream]) for (const name of ['readable', 'writable']) Object.defineProperty(made.prototype, name, { enumerable: true });

module.exports = { CompressionStream, DecompressionStream };
