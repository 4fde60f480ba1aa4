// Node's zlib over the engine's natives. A stream keeps what it is given until its end, and says all of it then.
const { Buffer } = require('node/buffer');
const { Transform } = require('node/stream');
const { compress, decompress } = natives.part('compression');

const constants = {
  Z_NO_FLUSH: 0, Z_PARTIAL_FLUSH: 1, Z_SYNC_FLUSH: 2, Z_FULL_FLUSH: 3, Z_FINISH: 4, Z_BLOCK: 5, Z_OK: 0, Z_STREAM_END: 1, Z_NEED_DICT: 2,
  Z_ERRNO: -1, Z_STREAM_ERROR: -2, Z_DATA_ERROR: -3, Z_MEM_ERROR: -4, Z_BUF_ERROR: -5, Z_VERSION_ERROR: -6,
  Z_NO_COMPRESSION: 0, Z_BEST_SPEED: 1, Z_BEST_COMPRESSION: 9, Z_DEFAULT_COMPRESSION: -1,
  Z_FILTERED: 1, Z_HUFFMAN_ONLY: 2, Z_RLE: 3, Z_FIXED: 4, Z_DEFAULT_STRATEGY: 0,
  DEFLATE: 1, INFLATE: 2, GZIP: 3, GUNZIP: 4, DEFLATERAW: 5, INFLATERAW: 6, UNZIP: 7, BROTLI_DECODE: 8, BROTLI_ENCODE: 9,
  Z_MIN_WINDOWBITS: 8, Z_MAX_WINDOWBITS: 15, Z_DEFAULT_WINDOWBITS: 15, Z_MIN_CHUNK: 64, Z_MAX_CHUNK: Infinity, Z_DEFAULT_CHUNK: 16384,
  Z_MIN_MEMLEVEL: 1, Z_MAX_MEMLEVEL: 9, Z_DEFAULT_MEMLEVEL: 8, Z_MIN_LEVEL: -1, Z_MAX_LEVEL: 9, Z_DEFAULT_LEVEL: -1,
  BROTLI_OPERATION_PROCESS: 0, BROTLI_OPERATION_FLUSH: 1, BROTLI_OPERATION_FINISH: 2, BROTLI_OPERATION_EMIT_METADATA: 3,
  BROTLI_PARAM_MODE: 0, BROTLI_MODE_GENERIC: 0, BROTLI_MODE_TEXT: 1, BROTLI_MODE_FONT: 2, BROTLI_DEFAULT_MODE: 0,
  BROTLI_PARAM_QUALITY: 1, BROTLI_MIN_QUALITY: 0, BROTLI_MAX_QUALITY: 11, BROTLI_DEFAULT_QUALITY: 11,
  BROTLI_PARAM_LGWIN: 2, BROTLI_MIN_WINDOW_BITS: 10, BROTLI_MAX_WINDOW_BITS: 24, BROTLI_DEFAULT_WINDOW: 22, BROTLI_PARAM_LGBLOCK: 3,
  BROTLI_PARAM_SIZE_HINT: 5, BROTLI_DECODER_PARAM_LARGE_WINDOW: 1,
};
const codes = Object.fromEntries(Object.entries(constants).slice(6, 15).flatMap(([name, value]) => [[name, value], [value, name]]));

const coded = (Kind, code, message, more) => Object.assign(new Kind(message), { code }, more);
const received = (value) => (value === null || value === undefined ? ` Received ${value}` : typeof value === 'object' ? ` Received an instance of ${value.constructor?.name ?? 'Object'}` : ` Received type ${typeof value} (${require('node/util').inspect(value)})`);
const bytes = (data) => {
  if (typeof data === 'string') return bytes(Buffer.from(data));
  if (data instanceof ArrayBuffer) return data;
  if (ArrayBuffer.isView(data)) return data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
  throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "buffer" argument must be of type string or an instance of Buffer, TypedArray, DataView, or ArrayBuffer.${received(data)}`);
};
const inRange = (options, name, least, most) => {
  const value = options[name];
  if (value === undefined || Number.isNaN(value)) return;
  if (typeof value !== 'number') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "options.${name}" property must be of type number.${received(value)}`);
  if (!(value >= least && value <= most)) throw coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "options.${name}" is out of range. It must be >= ${least} and <= ${most}. Received ${value}`);
};
const unsupported = (what) => coded(Error, 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM', `${what} is not supported in a session; leave it out`);
const checked = (options = {}, brotli = false) => {
  const given = options ?? {};
  inRange(given, 'chunkSize', 64, Infinity);
  inRange(given, 'maxOutputLength', 1, Number.MAX_SAFE_INTEGER);
  if (brotli) return given;
  inRange(given, 'level', -1, 9);
  inRange(given, 'windowBits', 0, 15);
  inRange(given, 'memLevel', 1, 9);
  inRange(given, 'strategy', 0, 4);
  if (given.dictionary !== undefined) throw unsupported('options.dictionary');
  return given;
};
const failed = (number, message, name = codes[number]) => Object.assign(new Error(message), { errno: number, code: name });
const packed = (format) => (data, options) => {
  if (format === 'brotli') {
    const params = options.params ?? {};
    return compress('brotli', params[constants.BROTLI_PARAM_QUALITY] ?? 11, params[constants.BROTLI_PARAM_LGWIN] ?? 22, data);
  }
  return compress(format, options.level === undefined || options.level < 0 ? 6 : options.level, 0, data);
};
const isGzip = (data) => data[0] === 0x1f && data[1] === 0x8b;
const MESSAGES = { gzip: 'incorrect header check', deflate: 'incorrect header check', 'deflate-raw': 'invalid stored block lengths' };
const expanded = (wanted) => (given, options) => {
  const parts = [];
  let data = given;
  const max = options.maxOutputLength ?? Number.MAX_SAFE_INTEGER;
  const partial = options.finishFlush === constants.Z_SYNC_FLUSH || options.finishFlush === constants.BROTLI_OPERATION_FLUSH;
  let room = max;
  for (;;) {
    const head = new Uint8Array(data, 0, Math.min(2, data.byteLength));
    const format = wanted === 'unzip' ? (isGzip(head) ? 'gzip' : 'deflate') : wanted;
    // What does not begin as a gzip is wrong, however short it is.
    if (format === 'gzip' && head.length === 2 && !isGzip(head)) throw failed(constants.Z_DATA_ERROR, MESSAGES.gzip);
    const [made, used, wrong] = decompress(format, room, data);
    parts.push(new Uint8Array(made));
    if (wrong === 'large') throw coded(RangeError, 'ERR_BUFFER_TOO_LARGE', `Cannot create a Buffer larger than ${max} bytes`);
    if (wrong === 'short' && !partial) throw failed(constants.Z_BUF_ERROR, 'unexpected end of file');
    if (wrong === 'bad') throw format === 'brotli' ? failed(-2, 'Decompression failed', 'ERR__ERROR_FORMAT_PADDING_1') : failed(constants.Z_DATA_ERROR, MESSAGES[format]);
    room -= made.byteLength;
    data = data.slice(used);
    // Members of a gzip follow each other; what is behind the last is ignored.
    if (wrong !== '' || format !== 'gzip' || data.byteLength === 0 || !isGzip(new Uint8Array(data))) break;
  }
  return Buffer.concat(parts);
};

const WORKS = {
  Gzip: [packed('gzip'), false], Gunzip: [expanded('gzip'), false], Deflate: [packed('deflate'), false], Inflate: [expanded('deflate'), false],
  DeflateRaw: [packed('deflate-raw'), false], InflateRaw: [expanded('deflate-raw'), false], Unzip: [expanded('unzip'), false],
  BrotliCompress: [packed('brotli'), true], BrotliDecompress: [expanded('brotli'), true],
};
const zlib = { constants: Object.freeze(constants), codes: Object.freeze(codes) };
for (const [name, [work, brotli]] of Object.entries(WORKS)) {
  // Node's are functions that `new` may be left out of.
  const Kind = function (options) {
    if (!(this instanceof Kind)) return new Kind(options);
    const given = checked(options, brotli);
    const parts = [];
    Transform.call(this, {
      ...given,
      transform(chunk, encoding, done) {
        parts.push(Buffer.from(chunk));
        this.bytesWritten += chunk.length;
        done();
      },
      flush(done) {
        try {
          const made = Buffer.from(work(bytes(Buffer.concat(parts.splice(0))), given));
          if (made.length > 0) this.push(made);
        } catch (error) {
          return void done(error);
        }
        done();
      },
    });
    this.bytesWritten = 0;
    this._closed = false;
  };
  Object.defineProperty(Kind, 'name', { value: name });
  Object.setPrototypeOf(Kind, Transform);
  Kind.prototype = Object.create(Transform.prototype, { constructor: { value: Kind, writable: true, configurable: true } });
  Kind.prototype.flush = function (kind, done) { queueMicrotask(typeof kind === 'function' ? kind : done ?? (() => {})); };
  Kind.prototype.close = function (done) {
    if (done !== undefined) this.once('close', done);
    this.destroy();
  };
  zlib[name] = Kind;
  zlib[`create${name}`] = (options) => new Kind(options);
  const short = name[0].toLowerCase() + name.slice(1);
  const sync = (data, options) => Buffer.from(work(bytes(data), checked(options, brotli)));
  zlib[`${short}Sync`] = sync;
  zlib[short] = (data, options, callback) => {
    const done = typeof options === 'function' ? options : callback;
    if (typeof done !== 'function') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "callback" argument must be of type function.${received(done)}`);
    const given = checked(typeof options === 'function' ? {} : options, brotli);
    const source = bytes(data);
    setImmediate(() => {
      let made;
      try {
        made = Buffer.from(work(source, given));
      } catch (error) {
        return void done(error);
      }
      done(null, made);
    });
  };
}
Object.assign(zlib, constants);
module.exports = zlib;
