// Node's `zlib` binding over the engine's streams: a handle is asked step by step, and opens its stream with the first one.
const { openStream, stepStream, levelStream, closeStream } = natives.part('compression');
const constants = require('web/zlib-constants');

const NOTHING = new ArrayBuffer(0);
const DEFAULT_LEVEL = 6;
const UNSET = 0xffffffff;
const { Z_OK, Z_STREAM_END, Z_FINISH, Z_BUF_ERROR, BROTLI_OPERATION_FINISH } = constants;
const names = Object.fromEntries(['Z_NEED_DICT', 'Z_DATA_ERROR', 'Z_BUF_ERROR'].map((name) => [constants[name], name]));
// By the mode of a handle: what its stream is.
const KINDS = { 1: ['deflate', 'zlib'], 2: ['inflate', 'zlib'], 3: ['deflate', 'gzip'], 4: ['inflate', 'gzip'], 5: ['deflate', 'raw'], 6: ['inflate', 'raw'], 7: ['inflate', 'either'], 8: ['brotli', 'unpack'], 9: ['brotli', 'pack'] };
// One that nobody closed gives its place back when it is collected.
const forgotten = new FinalizationRegistry((place) => { if (place.stream >= 0) closeStream(place.stream); });
const exact = (view) => view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);

class Handle {
  #kind; #place = { stream: -1 }; #level = DEFAULT_LEVEL; #window = 15; #brotliMode = 0; #dictionary = NOTHING; #state; #done; #closed = false; #working = false;
  constructor(mode) {
    this.#kind = KINDS[mode];
    forgotten.register(this, this.#place);
  }
  static begin(handle, given) {
    [handle.#level, handle.#window, handle.#brotliMode, handle.#state, handle.#done] = given;
    if (given.length > 5 && given[5] !== undefined) handle.#dictionary = ArrayBuffer.isView(given[5]) ? exact(given[5]) : given[5].slice(0);
  }
  #open() {
    const place = this.#place;
    if (place.stream < 0) place.stream = openStream(...this.#kind, this.#level, this.#window, this.#brotliMode, this.#dictionary);
    return place.stream;
  }
  // One step; what went wrong, if anything did.
  #step(flush, input, from, length, output, to, room) {
    const data = input === null || input === undefined ? NOTHING : input.buffer;
    const [used, made, code, message] = stepStream(this.#open(), flush, data, output.buffer, [input ? input.byteOffset + from : 0, input ? length : 0, output.byteOffset + to, room]);
    this.#state[0] = room - made;
    this.#state[1] = length - used;
    if (this.#kind[0] === 'brotli') {
      if (message !== '') return ['Decompression failed', code, message.replace('BROTLI_DECODER', 'ERR_')];
      return flush === BROTLI_OPERATION_FINISH && this.#kind[1] === 'unpack' && code !== Z_STREAM_END && made < room ? ['unexpected end of file', Z_BUF_ERROR, 'Z_BUF_ERROR'] : undefined;
    }
    if (message !== '') return [message, code, names[code] ?? 'Z_STREAM_ERROR'];
    return flush === Z_FINISH && code === Z_OK && made < room ? ['unexpected end of file', Z_BUF_ERROR, 'Z_BUF_ERROR'] : undefined;
  }
  writeSync(...given) {
    const wrong = this.#step(...given);
    if (wrong !== undefined) this.onerror(...wrong);
  }
  write(...given) {
    this.#working = true;
    queueMicrotask(() => {
      this.#working = false;
      if (this.#closed) return void this.#release();
      let wrong;
      try {
        wrong = this.#step(...given);
      } catch (error) {
        wrong = [error.message, constants.Z_MEM_ERROR, 'Z_MEM_ERROR'];
      }
      if (wrong === undefined) this.#done.call(this);
      else this.onerror(...wrong);
    });
  }
  params(level) {
    this.#level = level < 0 ? DEFAULT_LEVEL : level;
    if (this.#place.stream >= 0) levelStream(this.#place.stream, this.#level);
  }
  reset() { this.#release(); }
  #release() {
    if (this.#place.stream >= 0) closeStream(this.#place.stream);
    this.#place.stream = -1;
  }
  close() {
    this.#closed = true;
    if (!this.#working) this.#release();
  }
  getAsyncId() { return 0; }
}
class Zlib extends Handle {
  init(windowBits, level, memLevel, strategy, state, done, dictionary) { Handle.begin(this, [level < 0 ? DEFAULT_LEVEL : level, windowBits, 0, state, done, dictionary]); }
}
class Brotli extends Handle {
  // Whether the parameters are ones.
  init(params, state, done) {
    const given = (at, otherwise) => (params[at] === UNSET ? otherwise : params[at]);
    const quality = given(constants.BROTLI_PARAM_QUALITY, constants.BROTLI_DEFAULT_QUALITY);
    const window = given(constants.BROTLI_PARAM_LGWIN, constants.BROTLI_DEFAULT_WINDOW);
    Handle.begin(this, [quality, window, given(constants.BROTLI_PARAM_MODE, 0), state, done]);
    return true;
  }
}
class BrotliEncoder extends Brotli {}
class BrotliDecoder extends Brotli {}
module.exports = { Zlib, BrotliEncoder, BrotliDecoder };
