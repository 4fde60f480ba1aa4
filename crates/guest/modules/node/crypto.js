// The part of Node's crypto that hashes, authenticates, derives, draws and, by `web/ciphers`, enciphers.
const { Buffer } = require('node/buffer');
// Not the global: a cell's `const crypto = require('crypto')` takes its place.
const { digest, hmac, equal, pbkdf2, hkdf, entropy, webcrypto } = natives;

const HASHES = { md5: 16, sha1: 20, sha224: 28, sha256: 32, sha384: 48, sha512: 64, 'sha512-224': 28, 'sha512-256': 32, 'sha3-224': 28, 'sha3-256': 32, 'sha3-384': 48, 'sha3-512': 64, ripemd160: 20 };
const NAMES = { md5: 'MD5', sha1: 'SHA-1', sha224: 'SHA-224', sha256: 'SHA-256', sha384: 'SHA-384', sha512: 'SHA-512', 'sha512-224': 'SHA-512/224', 'sha512-256': 'SHA-512/256', 'sha3-224': 'SHA3-224', 'sha3-256': 'SHA3-256', 'sha3-384': 'SHA3-384', 'sha3-512': 'SHA3-512', ripemd160: 'RIPEMD-160' };
const ENTROPY_BYTES_MAX = 65536;
const PBKDF2_ROUNDS_MAX = 4_000_000;

const coded = (error, code) => Object.assign(error, { code });
const hashName = (name) => {
  const found = `${name}`.toLowerCase().replace(/^rsa-/, '').replace(/^sha-(?=\d)/, 'sha').replace(/^sha512\//, 'sha512-').replace(/^(ripemd|rmd160)$/, 'ripemd160');
  if (NAMES[found] === undefined) throw coded(new Error('Digest method not supported'), 'ERR_OSSL_EVP_UNSUPPORTED');
  return found;
};
const bytes = (data, encoding) => {
  if (typeof data === 'string') return bytes(Buffer.from(data, encoding === 'buffer' ? 'utf8' : encoding));
  if (data instanceof ArrayBuffer) return data.slice(0);
  if (ArrayBuffer.isView(data)) return data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
  throw coded(new TypeError('The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView.'), 'ERR_INVALID_ARG_TYPE');
};
const shown = (buffer, encoding) => (encoding === undefined || encoding === 'buffer' ? Buffer.from(buffer) : Buffer.from(buffer).toString(encoding));

// What both kinds share: parts are kept until `digest` asks for the sum.
class Sum {
  #parts = [];
  #done = false;
  update(data, encoding) {
    if (this.#done) throw coded(new Error('Digest already called'), 'ERR_CRYPTO_HASH_FINALIZED');
    this.#parts.push(Buffer.from(bytes(data, encoding)));
    return this;
  }
  take() {
    if (this.#done) throw coded(new Error('Digest already called'), 'ERR_CRYPTO_HASH_FINALIZED');
    this.#done = true;
    return bytes(Buffer.concat(this.#parts));
  }
  into(other) {
    if (this.#done) throw coded(new Error('Digest already called'), 'ERR_CRYPTO_HASH_FINALIZED');
    other.#parts = [...this.#parts];
    return other;
  }
}
class Hash {
  #name;
  #sum = new Sum();
  constructor(name) { this.#name = hashName(name); }
  update(data, encoding) { this.#sum.update(data, encoding); return this; }
  digest(encoding) { return shown(digest(NAMES[this.#name], this.#sum.take()), encoding); }
  copy() {
    const made = new Hash(this.#name);
    this.#sum.into(made.#sum);
    return made;
  }
}
class Hmac {
  #name;
  #key;
  #sum = new Sum();
  constructor(name, key) {
    this.#name = hashName(name);
    this.#key = bytes(key);
  }
  update(data, encoding) { this.#sum.update(data, encoding); return this; }
  digest(encoding) { return shown(hmac(NAMES[this.#name], this.#key, this.#sum.take()), encoding); }
}

const fill = (target) => {
  for (let at = 0; at < target.byteLength; at += ENTROPY_BYTES_MAX) target.set(new Uint8Array(entropy(Math.min(ENTROPY_BYTES_MAX, target.byteLength - at))), at);
};
const later = (callback, work) => {
  let value;
  try {
    value = work();
  } catch (error) {
    queueMicrotask(() => callback(error));
    return;
  }
  queueMicrotask(() => callback(null, value));
};
const randomBytes = (size, callback) => {
  if (typeof size !== 'number') throw coded(new TypeError(`The "size" argument must be of type number. Received ${typeof size}`), 'ERR_INVALID_ARG_TYPE');
  if (!(size >= 0 && size <= 0x7fffffff)) throw coded(new RangeError(`The value of "size" is out of range. It must be >= 0 && <= 2147483647. Received ${size}`), 'ERR_OUT_OF_RANGE');
  const draw = () => {
    const made = Buffer.alloc(size);
    fill(made);
    return made;
  };
  return callback === undefined ? draw() : later(callback, draw);
};
const randomFillSync = (target, offset = 0, size = target.byteLength - offset) => {
  fill(ArrayBuffer.isView(target) ? new Uint8Array(target.buffer, target.byteOffset + offset, size) : new Uint8Array(target, offset, size));
  return target;
};
const randomFill = (target, ...rest) => {
  const callback = rest.pop();
  later(callback, () => randomFillSync(target, ...rest));
};
// Whole 48 bit numbers, those of the last incomplete range drawn again.
const randomInt = (low, high, callback) => {
  if (high === undefined || typeof high === 'function') [low, high, callback] = [0, low, high];
  if (!Number.isSafeInteger(low) || !Number.isSafeInteger(high)) throw coded(new TypeError('The "max" argument must be a safe integer.'), 'ERR_INVALID_ARG_TYPE');
  const range = high - low;
  if (!(range > 0 && range <= 2 ** 48 - 1)) throw coded(new RangeError(`The value of "max" is out of range. It must be greater than the value of "min" (${low}). Received ${high}`), 'ERR_OUT_OF_RANGE');
  const draw = () => {
    const limit = 2 ** 48 - (2 ** 48 % range);
    for (;;) {
      const drawn = randomBytes(6).readUIntBE(0, 6);
      if (drawn < limit) return low + (drawn % range);
    }
  };
  return callback === undefined ? draw() : later(callback, draw);
};
const timingSafeEqual = (left, right) => {
  const [a, b] = [bytes(left), bytes(right)];
  if (a.byteLength !== b.byteLength) throw coded(new RangeError('Input buffers must have the same byte length'), 'ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH');
  return equal(a, b);
};
const pbkdf2Sync = (password, salt, iterations, length, name) => {
  const hash = hashName(name);
  if (!(Number.isInteger(iterations) && iterations > 0)) throw coded(new RangeError(`The value of "iterations" is out of range. It must be >= 1 && <= 2147483647. Received ${iterations}`), 'ERR_OUT_OF_RANGE');
  if (iterations * Math.max(1, Math.ceil(length / HASHES[hash])) > PBKDF2_ROUNDS_MAX) throw coded(new RangeError(`at most ${PBKDF2_ROUNDS_MAX} rounds in all are supported`), 'ERR_OUT_OF_RANGE');
  return Buffer.from(pbkdf2(NAMES[hash], bytes(password), bytes(salt), iterations, length));
};
const hkdfSync = (name, key, salt, info, length) => {
  const made = hkdf(NAMES[hashName(name)], bytes(key), bytes(salt), bytes(info), length);
  if (made === undefined) throw coded(new RangeError('Invalid key length'), 'ERR_CRYPTO_INVALID_KEYLEN');
  return made;
};

const SCRYPT_MEMORY_MAX = 32 * 1024 * 1024;
const scryptSync = (password, salt, length, options = {}) => {
  const { scrypt: derive } = natives.part('ciphers');
  const [n, r, p] = [options.N ?? options.cost ?? 16384, options.r ?? options.blockSize ?? 8, options.p ?? options.parallelization ?? 1];
  const most = options.maxmem ?? SCRYPT_MEMORY_MAX;
  const invalid = () => coded(new RangeError('Invalid scrypt params'), 'ERR_CRYPTO_INVALID_SCRYPT_PARAMS');
  const log = Math.log2(n);
  if (!(n > 1) || !Number.isInteger(log)) throw invalid();
  if (128 * n * r > most) throw coded(new RangeError('Invalid scrypt params: memory limit exceeded'), 'ERR_CRYPTO_INVALID_SCRYPT_PARAMS');
  if (!(Number.isInteger(length) && length >= 0)) throw coded(new RangeError(`The value of "keylen" is out of range. It must be >= 0 && <= 2147483647. Received ${length}`), 'ERR_OUT_OF_RANGE');
  if (length === 0) return Buffer.alloc(0);
  const made = derive(bytes(password), bytes(salt), log, r, p, length);
  if (made === undefined || made === null) throw invalid();
  return Buffer.from(made);
};

module.exports = {
  createHash: (name) => new Hash(name),
  createHmac: (name, key) => new Hmac(name, key),
  Hash, Hmac, randomBytes, randomFillSync, randomFill, randomInt, timingSafeEqual, pbkdf2Sync, hkdfSync,
  scryptSync,
  scrypt: (password, salt, length, options, callback) => (typeof options === 'function' ? later(options, () => scryptSync(password, salt, length)) : later(callback, () => scryptSync(password, salt, length, options))),
  get createCipheriv() { return require('web/ciphers').createCipheriv; },
  get createDecipheriv() { return require('web/ciphers').createDecipheriv; },
  getCiphers: () => require('web/ciphers').NAMES,
  pbkdf2: (password, salt, iterations, length, name, callback) => later(callback, () => pbkdf2Sync(password, salt, iterations, length, name)),
  hkdf: (name, key, salt, info, length, callback) => later(callback, () => hkdfSync(name, key, salt, info, length)),
  randomUUID: () => webcrypto.randomUUID(),
  getRandomValues: (array) => webcrypto.getRandomValues(array),
  getHashes: () => Object.keys(HASHES),
  webcrypto,
  get subtle() { return webcrypto.subtle; },
};
