// Node's crypto: hashes, authentication, derivation and randomness here, ciphers in `web/ciphers`, keys in `web/keys`.
const { Buffer } = require('node/buffer');
const { LazyTransform } = require('web/lazy-transform');
const { absent } = require('web/absent');
const { codes } = require('web/errors');
const { validateFunction, validateInteger, validateNumber, validateObject, validateString, validateUint32, validateInt32 } = require('web/validators');
// Not the global: a cell's `const crypto = require('crypto')` takes its place.
const { digest, xof, hmac, equal, pbkdf2: derivePbkdf2, hkdf: deriveHkdf, entropy, webcrypto } = natives;

const HASHES = { md5: 16, sha1: 20, sha224: 28, sha256: 32, sha384: 48, sha512: 64, 'sha512-224': 28, 'sha512-256': 32, 'sha3-224': 28, 'sha3-256': 32, 'sha3-384': 48, 'sha3-512': 64, ripemd160: 20 };
const NAMES = { md5: 'MD5', sha1: 'SHA-1', sha224: 'SHA-224', sha256: 'SHA-256', sha384: 'SHA-384', sha512: 'SHA-512', 'sha512-224': 'SHA-512/224', 'sha512-256': 'SHA-512/256', 'sha3-224': 'SHA3-224', 'sha3-256': 'SHA3-256', 'sha3-384': 'SHA3-384', 'sha3-512': 'SHA3-512', ripemd160: 'RIPEMD-160' };
// Digests of any length, and the length that they have if none is asked for.
const XOF = { shake128: 16, shake256: 32 };
const ENTROPY_BYTES_MAX = 65536;
const PBKDF2_ROUNDS_MAX = 4_000_000;
const INT_MAX = 2 ** 31 - 1;

const coded = (error, code) => Object.assign(error, { code });
const found = (name) => {
  const bare = `${name}`.toLowerCase().replace(/^rsa-/, '').replace(/^sha-(?=\d)/, 'sha').replace(/^sha512\//, 'sha512-').replace(/^(ripemd|rmd160)$/, 'ripemd160');
  return NAMES[bare] === undefined ? undefined : bare;
};
const hashName = (name) => {
  const known = found(name);
  if (known === undefined) throw new codes.ERR_CRYPTO_INVALID_DIGEST(name);
  return known;
};
const isBytes = (data) => ArrayBuffer.isView(data) || data instanceof ArrayBuffer || (typeof SharedArrayBuffer === 'function' && data instanceof SharedArrayBuffer);
const bytes = (data, encoding, name = 'data', kinds = ['string', 'Buffer', 'TypedArray', 'DataView']) => {
  if (typeof data === 'string') return bytes(Buffer.from(data, encoding === 'buffer' ? 'utf8' : encoding));
  if (!isBytes(data)) throw new codes.ERR_INVALID_ARG_TYPE(name, kinds, data);
  return ArrayBuffer.isView(data) ? data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength) : data.slice(0);
};
const input = (data, name) => bytes(data, undefined, name, ['string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView']);
const secret = (key, name, encoding) => {
  if (require('node/util/types').isKeyObject(key)) {
    if (key.type !== 'secret') throw new codes.ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE(key.type, 'secret');
    return bytes(key.export());
  }
  return bytes(key, encoding, name, ['ArrayBuffer', 'Buffer', 'TypedArray', 'DataView', 'string', 'KeyObject', 'CryptoKey']);
};
const shown = (buffer, encoding) => (encoding === undefined || encoding === null || encoding === 'buffer' ? Buffer.from(buffer) : Buffer.from(buffer).toString(encoding));

// What both kinds share: parts are kept until `digest` asks for the sum.
class Sum extends LazyTransform {
  #parts = [];
  #done = false;
  update(data, encoding) {
    if (this.#done) throw new codes.ERR_CRYPTO_HASH_FINALIZED();
    this.#parts.push(Buffer.from(bytes(data, encoding)));
    return this;
  }
  static take(sum, again) {
    if (sum.#done && again === undefined) throw new codes.ERR_CRYPTO_HASH_FINALIZED();
    sum.#done = true;
    return bytes(Buffer.concat(sum.#parts.splice(0)));
  }
  static rest(sum) { return bytes(Buffer.concat(sum.#parts)); }
  static into(sum, other) {
    if (sum.#done) throw new codes.ERR_CRYPTO_HASH_FINALIZED();
    other.#parts = [...sum.#parts];
    return other;
  }
  _transform(chunk, encoding, done) {
    this.update(chunk, encoding);
    done();
  }
  _flush(done) {
    this.push(this.ended());
    done();
  }
}
class HashSum extends Sum {
  #name; #length; #sum;
  constructor(name, options) {
    validateString(name, 'algorithm');
    super(options ?? undefined);
    const lower = name.toLowerCase();
    this.#name = Object.hasOwn(XOF, lower) ? lower : found(name);
    if (this.#name === undefined) throw coded(new Error('Digest method not supported'), 'ERR_OSSL_EVP_UNSUPPORTED');
    this.#length = options?.outputLength;
    if (this.#length !== undefined) {
      validateUint32(this.#length, 'options.outputLength');
      if (XOF[this.#name] === undefined && this.#length !== HASHES[this.#name]) throw coded(new Error('Unsupported state or unable to change the length of the digest'), 'ERR_OSSL_EVP_NOT_XOF_OR_INVALID_LENGTH');
    }
  }
  #of(data) { return XOF[this.#name] === undefined ? digest(NAMES[this.#name], data) : xof(Number(this.#name.slice('shake'.length)), data, this.#length ?? XOF[this.#name]); }
  // What a stream has said may be asked for once more.
  ended() { return Buffer.from(this.#sum ??= this.#of(Sum.rest(this))); }
  digest(encoding) {
    const again = Sum.take(this);
    return shown(this.#sum ?? this.#of(again), encoding);
  }
  // What is not asked for anew is as it is without being asked for.
  copy(options) { return Sum.into(this, new HashSum(this.#name, options)); }
}
class HmacSum extends Sum {
  #name; #key; #done = false;
  constructor(name, key, options) {
    validateString(name, 'hmac');
    super(options);
    this.#key = secret(key, 'key', options?.encoding);
    this.#name = hashName(name);
  }
  ended() { return this.digest(); }
  digest(encoding) {
    const made = this.#done ? new ArrayBuffer(0) : hmac(NAMES[this.#name], this.#key, Sum.take(this));
    this.#done = true;
    return shown(made, encoding);
  }
}
// Node's are functions, too.
const callable = (Kind, name) => {
  const made = function (...args) { return new.target === undefined ? new Kind(...args) : Reflect.construct(Kind, args, new.target === made ? Kind : new.target); };
  Object.defineProperty(made, 'name', { value: name });
  Object.defineProperty(Kind, 'name', { value: name });
  made.prototype = Kind.prototype;
  Object.defineProperty(Kind.prototype, 'constructor', { value: made, writable: true, configurable: true });
  return made;
};
const Hash = callable(HashSum, 'Hash');
const Hmac = callable(HmacSum, 'Hmac');

const fill = (target) => {
  for (let at = 0; at < target.byteLength; at += ENTROPY_BYTES_MAX) target.set(new Uint8Array(entropy(Math.min(ENTROPY_BYTES_MAX, target.byteLength - at))), at);
};
const later = (callback, work) => {
  let value;
  try {
    value = work();
  } catch (error) {
    setImmediate(() => callback(error));
    return;
  }
  setImmediate(() => callback(null, value));
};
const inRange = (value, name, most) => {
  validateNumber(value, name);
  if (Number.isNaN(value) || value > most || value < 0) throw new codes.ERR_OUT_OF_RANGE(name, `>= 0 && <= ${most}`, value);
};
const randomBytes = (size, callback) => {
  inRange(size, 'size', INT_MAX);
  if (callback !== undefined) validateFunction(callback, 'callback');
  const draw = () => {
    const made = Buffer.alloc(size);
    fill(made);
    return made;
  };
  return callback === undefined ? draw() : later(callback, draw);
};
const area = (target, offset, size) => {
  if (!isBytes(target)) throw new codes.ERR_INVALID_ARG_TYPE('buf', ['ArrayBuffer', 'ArrayBufferView'], target);
  const unit = target.BYTES_PER_ELEMENT ?? 1;
  const from = offset ?? 0;
  inRange(from, 'offset', target.byteLength);
  const length = size === undefined ? target.byteLength - from * unit : size * unit;
  inRange(size ?? length, 'size', INT_MAX);
  if (from * unit + length > target.byteLength) throw new codes.ERR_OUT_OF_RANGE('size + offset', `<= ${target.byteLength}`, length + from * unit);
  return ArrayBuffer.isView(target) ? new Uint8Array(target.buffer, target.byteOffset + from * unit, length) : new Uint8Array(target, from, length);
};
const randomFillSync = (target, offset, size) => {
  fill(area(target, offset, size));
  return target;
};
const randomFill = (target, ...rest) => {
  if (!isBytes(target)) throw new codes.ERR_INVALID_ARG_TYPE('buf', ['ArrayBuffer', 'ArrayBufferView'], target);
  const at = rest.findIndex((it) => typeof it === 'function');
  if (at < 0) validateFunction(rest[2], 'callback');
  const place = area(target, ...rest.slice(0, at));
  later(rest[at], () => {
    fill(place);
    return target;
  });
};
// Whole 48 bit numbers, those of the last incomplete range drawn again.
const randomInt = (low, high, callback) => {
  if (high === undefined || typeof high === 'function') [low, high, callback] = [0, low, high];
  if (callback !== undefined) validateFunction(callback, 'callback');
  if (!Number.isSafeInteger(low)) throw new codes.ERR_INVALID_ARG_TYPE('min', 'a safe integer', low);
  if (!Number.isSafeInteger(high)) throw new codes.ERR_INVALID_ARG_TYPE('max', 'a safe integer', high);
  if (high <= low) throw new codes.ERR_OUT_OF_RANGE('max', `greater than the value of "min" (${low})`, high);
  const range = high - low;
  if (!(range <= 2 ** 48 - 1)) throw new codes.ERR_OUT_OF_RANGE(low === 0 ? 'max' : 'max - min', `<= ${2 ** 48 - 1}`, range);
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
  for (const [name, value] of [['buf1', left], ['buf2', right]]) if (!isBytes(value)) throw new codes.ERR_INVALID_ARG_TYPE(name, ['ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], value);
  const [a, b] = [bytes(left), bytes(right)];
  if (a.byteLength !== b.byteLength) throw coded(new RangeError('Input buffers must have the same byte length'), 'ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH');
  return equal(a, b);
};
const checkedPbkdf2 = (password, salt, iterations, length, name) => {
  validateString(name, 'digest');
  const given = [input(password, 'password'), input(salt, 'salt')];
  validateInteger(iterations, 'iterations', 1, INT_MAX);
  validateInteger(length, 'keylen', 0, INT_MAX);
  const hash = hashName(name);
  if (iterations * Math.max(1, Math.ceil(length / HASHES[hash])) > PBKDF2_ROUNDS_MAX) throw coded(new RangeError(`at most ${PBKDF2_ROUNDS_MAX} rounds in all are supported`), 'ERR_OUT_OF_RANGE');
  return () => Buffer.from(derivePbkdf2(NAMES[hash], ...given, iterations, length));
};
const pbkdf2 = (password, salt, iterations, length, name, callback) => {
  if (typeof name === 'function') [name, callback] = [undefined, name];
  const derive = checkedPbkdf2(password, salt, iterations, length, name);
  validateFunction(callback, 'callback');
  later(callback, derive);
};
const INFO_BYTES_MAX = 1024;
const checkedHkdf = (name, key, salt, info, length) => {
  validateString(name, 'digest');
  const given = [secret(key, 'ikm'), input(salt, 'salt'), input(info, 'info')];
  validateInteger(length, 'length', 0, INT_MAX);
  if (given[2].byteLength > INFO_BYTES_MAX) throw coded(new RangeError(`The value of "info" is out of range. It must not contain more than ${INFO_BYTES_MAX} bytes. Received ${given[2].byteLength}`), 'ERR_OUT_OF_RANGE');
  const hash = hashName(name);
  const invalid = () => coded(new RangeError('Invalid key length'), 'ERR_CRYPTO_INVALID_KEYLEN');
  if (length > 255 * HASHES[hash]) throw invalid();
  return () => {
    if (length === 0) return new ArrayBuffer(0);
    const made = deriveHkdf(NAMES[hash], ...given, length);
    if (made === undefined || made === null) throw invalid();
    return made;
  };
};
const hkdf = (name, key, salt, info, length, callback) => {
  const derive = checkedHkdf(name, key, salt, info, length);
  validateFunction(callback, 'callback');
  later(callback, derive);
};

const SCRYPT_MEMORY_MAX = 32 * 1024 * 1024;
const either = (options, long, short, otherwise) => {
  if (options[long] !== undefined && options[short] !== undefined) throw new codes.ERR_INCOMPATIBLE_OPTION_PAIR(long, short);
  const value = options[short] ?? options[long];
  if (value !== undefined) validateUint32(value, short);
  return value || otherwise;
};
const checkedScrypt = (password, salt, length, options = {}) => {
  const given = [input(password, 'password'), input(salt, 'salt')];
  validateInt32(length, 'keylen', 0, INT_MAX);
  if (options !== undefined) validateObject(options, 'options');
  const [n, r, p] = [either(options, 'cost', 'N', 16384), either(options, 'blockSize', 'r', 8), either(options, 'parallelization', 'p', 1)];
  if (options.maxmem !== undefined) validateInteger(options.maxmem, 'maxmem', 0);
  const most = options.maxmem || SCRYPT_MEMORY_MAX;
  const invalid = (why = '') => coded(new RangeError(`Invalid scrypt params${why}`), 'ERR_CRYPTO_INVALID_SCRYPT_PARAMS');
  const log = Math.log2(n);
  if (!(n > 1) || !Number.isInteger(log)) throw invalid();
  if (128 * n * r > most) throw invalid(': memory limit exceeded');
  return () => {
    if (length === 0) return Buffer.alloc(0);
    const made = natives.part('ciphers').scrypt(...given, log, r, p, length);
    if (made === undefined || made === null) throw invalid();
    return Buffer.from(made);
  };
};
const scrypt = (password, salt, length, options, callback) => {
  if (typeof options === 'function') [options, callback] = [undefined, options];
  const derive = checkedScrypt(password, salt, length, options);
  validateFunction(callback, 'callback');
  later(callback, derive);
};
const keys = () => require('web/keys');
const agreement = () => require('web/agreement');

module.exports = {
  createHash: (name, options) => new Hash(name, options), createHmac: (name, key, options) => new Hmac(name, key, options), Hash, Hmac,
  hash: (name, data, encoding = 'hex') => shown(digest(NAMES[hashName(name)], bytes(data, undefined, 'input')), encoding),
  randomBytes, pseudoRandomBytes: randomBytes, rng: randomBytes, prng: randomBytes, randomFillSync, randomFill, randomInt, timingSafeEqual,
  pbkdf2, pbkdf2Sync: (...args) => checkedPbkdf2(...args)(), hkdf, hkdfSync: (...args) => checkedHkdf(...args)(), scrypt, scryptSync: (...args) => checkedScrypt(...args)(),
  randomUUID: (options) => {
    if (options !== undefined) validateObject(options, 'options');
    if (options?.disableEntropyCache !== undefined) require('web/validators').validateBoolean(options.disableEntropyCache, 'options.disableEntropyCache');
    return webcrypto.randomUUID();
  },
  getRandomValues: (array) => webcrypto.getRandomValues(array),
  getHashes: () => [...Object.keys(HASHES), ...Object.keys(XOF)].sort(), getCurves: () => Object.values(require('web/asymmetric').CURVES).map((it) => it.node), getFips: () => 0,
  createSign: (name, options) => new (keys().Sign)(name, options), createVerify: (name, options) => new (keys().Verify)(name, options),
  publicEncrypt: (key, data) => keys().crypted(key, data, true), privateDecrypt: (key, data) => keys().crypted(key, data, false),
  privateEncrypt: (key, data) => require('web/key-pairs').privateEncrypt(key, data), publicDecrypt: (key, data) => require('web/key-pairs').publicDecrypt(key, data),
  createECDH: (curve) => new (agreement().ECDH)(curve), createDiffieHellman: (...args) => new (agreement().DiffieHellman)(...args),
  getDiffieHellman: (name) => new (agreement().DiffieHellmanGroup)(name), createDiffieHellmanGroup: (name) => new (agreement().DiffieHellmanGroup)(name),
  getCiphers: () => require('web/ciphers').NAMES,
  webcrypto,
};
const made = module.exports;
for (const [from, names] of Object.entries({
  'web/keys': ['KeyObject', 'constants', 'createPublicKey', 'createPrivateKey', 'createSecretKey', 'generateKey', 'generateKeySync', 'Sign', 'Verify', 'sign', 'verify', 'diffieHellman'],
  'web/key-pairs': ['generateKeyPair', 'generateKeyPairSync', 'Certificate'],
  'web/agreement': ['ECDH', 'DiffieHellman', 'DiffieHellmanGroup'],
  'web/ciphers': ['createCipheriv', 'createDecipheriv', 'getCipherInfo', 'Cipheriv', 'Decipheriv', 'Cipher', 'Decipher', 'createCipher', 'createDecipher'],
  'web/primes': ['generatePrime', 'generatePrimeSync', 'checkPrime', 'checkPrimeSync'],
})) {
  for (const name of names) {
    Object.defineProperty(made, name, { get: () => load(from)[name], enumerable: true, configurable: true });
  }
}
// What there is no code for, by name.
for (const name of ['X509Certificate', 'setEngine', 'setFips', 'secureHeapUsed']) made[name] = absent(`crypto.${name}`, 'call a tool');
function load(name) { return name === 'web/primes' ? require('web/primes') : name === 'web/key-pairs' ? require('web/key-pairs') : name === 'web/keys' ? require('web/keys') : name === 'web/agreement' ? require('web/agreement') : require('web/ciphers'); }
Object.defineProperties(made, { hashName: { value: hashName }, webHash: { value: (name) => NAMES[hashName(name)] }, subtle: { get: () => webcrypto.subtle, enumerable: true, configurable: true } });
