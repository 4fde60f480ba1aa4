// Node's ciphers: AES in ECB, CBC, CTR, GCM and as a wrapping, and triple DES in CBC, block by block as the text comes.
const { Buffer } = require('node/buffer');
const { aes, aesGcm, des3 } = natives.part('ciphers');

const { notThere } = require('web/absent');
const { codes } = require('web/errors');
const { providerError } = require('web/ossl');
const { validateString } = require('web/validators');

const { LazyTransform } = require('web/lazy-transform');
// By their names: mode, bytes of key and iv, and OpenSSL's numbers of them and its other names.
const TRIPLE_DES = 'des-ede3-cbc';
const CIPHERS = { [TRIPLE_DES]: { mode: 'cbc', keyLength: 24, ivLength: 8, block: 8, nid: 44 } };
const ALIASES = { des3: TRIPLE_DES };
for (const [bits, ecb, cbc, gcm, ctr, wrap] of [[128, 418, 419, 895, 904, 788], [192, 422, 423, 898, 905, 789], [256, 426, 427, 901, 906, 790]]) {
  const keyLength = bits / 8;
  CIPHERS[`aes-${bits}-ecb`] = { mode: 'ecb', keyLength, ivLength: 0, block: 16, nid: ecb };
  CIPHERS[`aes-${bits}-cbc`] = { mode: 'cbc', keyLength, ivLength: 16, block: 16, nid: cbc };
  CIPHERS[`aes-${bits}-ctr`] = { mode: 'ctr', keyLength, ivLength: 16, nid: ctr };
  CIPHERS[`aes-${bits}-gcm`] = { mode: 'gcm', keyLength, ivLength: 12, nid: gcm, told: `id-aes${bits}-GCM` };
  CIPHERS[`aes${bits}-wrap`] = { mode: 'wrap', keyLength, ivLength: 8, block: 8, nid: wrap, told: `id-aes${bits}-wrap` };
  Object.assign(ALIASES, { [`aes${bits}`]: `aes-${bits}-cbc`, [`id-aes${bits}-gcm`]: `aes-${bits}-gcm`, [`id-aes${bits}-wrap`]: `aes${bits}-wrap` });
}
const NAMES = Object.keys(CIPHERS).sort();
const known = (name) => {
  const lower = name.toLowerCase();
  const found = ALIASES[lower] ?? lower;
  return Object.hasOwn(CIPHERS, found) ? found : undefined;
};
// What RFC 3394 puts before a key.
const WRAPPED_BEHIND = Buffer.alloc(8, 0xa6);
const TAG_BYTES = 16;
const TAG_SIZES = [4, 8, 12, 13, 14, 15, 16];
const BLOCK = 16;
const coded = (Kind, code, message) => Object.assign(new Kind(message), { code });
const KEY_KINDS = ['string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView', 'KeyObject', 'CryptoKey'];
const plain = (data, encoding, name = 'data') => {
  const all = typeof data === 'string' ? Buffer.from(data, encoding === 'buffer' ? 'utf8' : encoding) : data instanceof ArrayBuffer ? Buffer.from(data) : data;
  if (!ArrayBuffer.isView(all)) throw new codes.ERR_INVALID_ARG_TYPE(name, name === 'key' ? KEY_KINDS : name === 'buffer' ? ['string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'] : ['string', 'Buffer', 'TypedArray', 'DataView'], data);
  return all.buffer.slice(all.byteOffset, all.byteOffset + all.byteLength);
};
const keyBytes = (key) => {
  if (require('node/util/types').isKeyObject(key)) {
    if (key.type !== 'secret') throw new codes.ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE(key.type, 'secret');
    return plain(key.export());
  }
  return plain(key, 'utf8', 'key');
};
// A counter of big-endian bytes, so many blocks further.
const advanced = (iv, blocks) => {
  const made = new Uint8Array(iv.slice(0));
  let carry = blocks;
  for (let at = made.length - 1; at >= 0 && carry > 0; at--) {
    carry += made[at];
    made[at] = carry % 256;
    carry = Math.floor(carry / 256);
  }
  return made.buffer;
};

class Coder extends LazyTransform {
  #name; #mode; #size; #key; #iv; #seal; #tag; #tagBytes; #aad = Buffer.alloc(0); #padding = true; #held = Buffer.alloc(0); #done = false; #counted = 0; #text = []; #decoder;
  constructor(seal, name, key, iv, options) {
    super(options);
    const { mode, keyLength, ivLength, block } = CIPHERS[name];
    [this.#name, this.#mode, this.#size, this.#seal, this.#key, this.#iv] = [name, mode, block, seal, key, iv];
    if (key.byteLength !== keyLength) throw coded(RangeError, 'ERR_CRYPTO_INVALID_KEYLEN', 'Invalid key length');
    if (mode === 'gcm' ? iv.byteLength === 0 : iv.byteLength !== ivLength) throw coded(TypeError, 'ERR_CRYPTO_INVALID_IV', 'Invalid initialization vector');
    if (mode === 'wrap' && !WRAPPED_BEHIND.equals(Buffer.from(iv))) throw notThere(`${name} with another iv than ${WRAPPED_BEHIND.toString('hex')}`, "give the standard's own, which it checks a key by");
    const tagBytes = options?.authTagLength;
    if (tagBytes !== undefined && (typeof tagBytes !== 'number' || tagBytes < 0 || !Number.isInteger(tagBytes))) throw new codes.ERR_INVALID_ARG_VALUE('options.authTagLength', tagBytes);
    if (mode === 'gcm' && tagBytes !== undefined && !TAG_SIZES.includes(tagBytes)) throw coded(TypeError, 'ERR_CRYPTO_INVALID_AUTH_TAG', `Invalid authentication tag length: ${tagBytes}`);
    this.#tagBytes = tagBytes;
  }
  #shown(bytes, encoding, last = false) {
    if (encoding === undefined || encoding === null || encoding === 'buffer') return bytes;
    const { StringDecoder } = require('node/string_decoder');
    const decoder = new StringDecoder(encoding);
    if (this.#decoder !== undefined && this.#decoder.encoding !== decoder.encoding) throw new codes.ERR_INTERNAL_ASSERTION('Cannot change encoding');
    this.#decoder ??= decoder;
    return last ? this.#decoder.end(bytes) : this.#decoder.write(bytes);
  }
  // The next bytes of a counter's stream over `data`.
  #counting(data, from) {
    const skip = this.#counted % BLOCK;
    const counter = advanced(from, Math.floor(this.#counted / BLOCK));
    this.#counted += data.length;
    return Buffer.from(aes('ctr128', true, this.#key, counter, plain(Buffer.concat([Buffer.alloc(skip), data])))).subarray(skip);
  }
  #blocks(data) {
    const all = this.#held.length === 0 ? data : Buffer.concat([this.#held, data]);
    // The last block of what is opened may be padding.
    const size = this.#size;
    const keep = !this.#seal && this.#padding ? Math.min(all.length, all.length % size || size) : all.length % size;
    const whole = all.subarray(0, all.length - keep);
    this.#held = Buffer.from(all.subarray(all.length - keep));
    if (whole.length === 0) return Buffer.alloc(0);
    const made = Buffer.from(this.#coded(false, plain(whole)));
    if (this.#mode === 'cbc') this.#iv = plain((this.#seal ? made : whole).subarray(-size));
    return made;
  }
  // At most one block with its padding, or whole blocks.
  #coded(isLast, data) {
    if (this.#name === TRIPLE_DES) return des3(isLast, this.#seal, this.#key, this.#iv, data);
    if (this.#mode === 'cbc') return aes(isLast ? 'cbc' : 'cbc-bare', this.#seal, this.#key, this.#iv, data);
    // One block by itself is one of CBC behind zeros.
    return isLast ? aes('cbc', this.#seal, this.#key, new ArrayBuffer(BLOCK), data) : aes('ecb-bare', this.#seal, this.#key, new ArrayBuffer(0), data);
  }
  // A key is wrapped whole.
  #wrapped(data) {
    const made = data.length % 8 === 0 && data.length >= 16 ? aes('kw', this.#seal, this.#key, new ArrayBuffer(0), plain(data)) : undefined;
    if (made === undefined || made === null) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Trying to add data in unsupported state');
    return Buffer.from(made);
  }
  // GCM counts behind an iv of 12 bytes; behind another, all comes with the end.
  get #first() { return plain(Buffer.concat([Buffer.from(this.#iv), Buffer.from([0, 0, 0, 2])])); }
  update(data, from, to) {
    const bytes = Buffer.from(typeof data === 'string' ? plain(data, from) : plain(data));
    if (this.#done) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Trying to add data in unsupported state');
    if (to !== undefined && to !== null) this.#shown(Buffer.alloc(0), to);
    let made = Buffer.alloc(0);
    if (this.#mode === 'cbc' || this.#mode === 'ecb') made = this.#blocks(bytes);
    else if (this.#mode === 'wrap') made = this.#wrapped(bytes);
    else if (this.#mode === 'ctr') made = this.#counting(bytes, this.#iv);
    else {
      this.#text.push(bytes);
      if (this.#iv.byteLength === 12) made = this.#counting(bytes, this.#first);
    }
    return this.#shown(made, to);
  }
  final(to) {
    if (this.#done) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Unsupported state');
    if (to !== undefined && to !== null) this.#shown(Buffer.alloc(0), to);
    this.#done = true;
    const made = this.#mode === 'gcm' ? this.#authenticated() : this.#mode === 'cbc' || this.#mode === 'ecb' ? this.#last() : Buffer.alloc(0);
    return this.#shown(made, to, true);
  }
  #last() {
    if (!this.#padding) {
      if (this.#held.length > 0) throw providerError('1C80006B', 'wrong final block length');
      return Buffer.alloc(0);
    }
    if (!this.#seal && this.#held.length !== this.#size) throw providerError('1C80006B', 'wrong final block length');
    const made = this.#coded(true, plain(this.#held));
    if (made === undefined || made === null) throw providerError('1C800064', 'bad decrypt');
    return Buffer.from(made);
  }
  #authenticated() {
    const failed = () => new Error('Unsupported state or unable to authenticate data');
    const text = Buffer.concat(this.#text.splice(0));
    const streamed = this.#iv.byteLength === 12;
    if (this.#seal) {
      const size = this.#tagBytes ?? TAG_BYTES;
      const made = aesGcm(true, TAG_BYTES, this.#key, this.#iv, plain(this.#aad), plain(text));
      if (made === undefined || made === null) throw failed();
      this.#tag = made.slice(text.length, text.length + size);
      return streamed ? Buffer.alloc(0) : Buffer.from(made.slice(0, text.length));
    }
    if (this.#tag === undefined) throw failed();
    const made = aesGcm(false, this.#tag.byteLength, this.#key, this.#iv, plain(this.#aad), plain(Buffer.concat([text, Buffer.from(this.#tag)])));
    if (made === undefined || made === null) throw failed();
    return streamed ? Buffer.alloc(0) : Buffer.from(made);
  }
  setAAD(data, options) {
    const bytes = Buffer.from(plain(data, options?.encoding, 'buffer'));
    if (this.#done || this.#mode !== 'gcm') throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Invalid state for operation setAAD');
    this.#aad = Buffer.concat([this.#aad, bytes]);
    return this;
  }
  setAutoPadding(padding = true) {
    if (this.#done) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Invalid state for operation setAutoPadding');
    this.#padding = !!padding;
    return this;
  }
  getAuthTag() {
    if (!this.#seal || !this.#done || this.#tag === undefined) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Invalid state for operation getAuthTag');
    return Buffer.from(this.#tag);
  }
  setAuthTag(tag, encoding) {
    const bytes = plain(tag, encoding, 'buffer');
    if (this.#seal || this.#done || this.#tag !== undefined || this.#mode !== 'gcm') throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Invalid state for operation setAuthTag');
    if (!TAG_SIZES.includes(bytes.byteLength) || (this.#tagBytes !== undefined && this.#tagBytes !== bytes.byteLength)) throw coded(TypeError, 'ERR_CRYPTO_INVALID_AUTH_TAG', `Invalid authentication tag length: ${bytes.byteLength}`);
    this.#tag = bytes;
    return this;
  }
  _transform(chunk, encoding, done) {
    this.push(this.update(chunk, encoding));
    done();
  }
  _flush(done) {
    try {
      this.push(this.final());
    } catch (error) {
      return void done(error);
    }
    done();
  }
}
const named = (cipher) => {
  const name = known(cipher);
  if (name === undefined) throw coded(Error, 'ERR_CRYPTO_UNKNOWN_CIPHER', 'Unknown cipher');
  return name;
};
// Node's are functions, and each has its own prototype.
const kind = (name, make) => {
  const made = function (...args) {
    const coder = make(args);
    Object.setPrototypeOf(coder, new.target === undefined ? made.prototype : new.target.prototype);
    return coder;
  };
  made.prototype = Object.create(Coder.prototype, { constructor: { value: made, writable: true, configurable: true } });
  Object.defineProperty(made, 'name', { value: name });
  return made;
};
const withIv = (seal) => ([cipher, key, iv, options]) => {
  validateString(cipher, 'cipher');
  const bytes = keyBytes(key);
  if (iv === undefined || (iv !== null && typeof iv !== 'string' && !ArrayBuffer.isView(iv) && !(iv instanceof ArrayBuffer))) throw new codes.ERR_INVALID_ARG_TYPE('iv', ['string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], iv);
  return new Coder(seal, named(cipher), bytes, iv === null ? new ArrayBuffer(0) : plain(iv), options);
};
// Key and iv of a password, as OpenSSL drew them once: sums of MD5, without a salt.
const ofPassword = (seal) => ([cipher, password, options]) => {
  validateString(cipher, 'cipher');
  const secret = Buffer.from(keyBytes(password));
  const name = named(cipher);
  const { keyLength, ivLength, mode } = CIPHERS[name];
  if (mode === 'wrap') throw notThere(`createCipher with ${name}`, 'use createCipheriv');
  if (mode === 'ctr' || mode === 'gcm') process.emitWarning(`Use Cipheriv for counter mode of ${cipher}`);
  let [all, last] = [Buffer.alloc(0), Buffer.alloc(0)];
  while (all.length < keyLength + ivLength) {
    last = Buffer.from(natives.digest('MD5', plain(Buffer.concat([last, secret]))));
    all = Buffer.concat([all, last]);
  }
  return new Coder(seal, name, plain(all.subarray(0, keyLength)), plain(all.subarray(keyLength, keyLength + ivLength)), options);
};
const Cipheriv = kind('Cipheriv', withIv(true));
const Decipheriv = kind('Decipheriv', withIv(false));
const Cipher = kind('Cipher', ofPassword(true));
const Decipher = kind('Decipher', ofPassword(false));
let told = false;
const deprecated = (make) => (...args) => {
  if (!told) process.emitWarning('crypto.createCipher is deprecated.', 'DeprecationWarning', 'DEP0106');
  told = true;
  return make(...args);
};
const getCipherInfo = (given, options) => {
  if (typeof given !== 'string' && typeof given !== 'number') throw new codes.ERR_INVALID_ARG_TYPE('nameOrNid', ['string', 'number'], given);
  const { validateInt32, validateObject } = require('web/validators');
  if (typeof given === 'number') validateInt32(given, 'nameOrNid');
  if (options !== undefined) validateObject(options, 'options');
  const { keyLength, ivLength } = options ?? {};
  if (keyLength !== undefined) validateInt32(keyLength, 'options.keyLength');
  if (ivLength !== undefined) validateInt32(ivLength, 'options.ivLength');
  const name = typeof given === 'number' ? NAMES.find((it) => CIPHERS[it].nid === given) : known(given);
  if (name === undefined) return undefined;
  const found = CIPHERS[name];
  if (keyLength !== undefined && keyLength !== found.keyLength) return undefined;
  if (ivLength !== undefined && (found.mode === 'gcm' ? ivLength < 1 : ivLength !== found.ivLength)) return undefined;
  return {
    mode: found.mode, name: found.told ?? name, nid: found.nid, ...(found.block === undefined ? {} : { blockSize: found.block }),
    ...(found.ivLength === 0 ? {} : { ivLength: ivLength ?? found.ivLength }), keyLength: found.keyLength,
  };
};
module.exports = {
  NAMES, getCipherInfo, Cipheriv, Decipheriv, Cipher, Decipher,
  createCipheriv: (...args) => new Cipheriv(...args), createDecipheriv: (...args) => new Decipheriv(...args),
  createCipher: deprecated((...args) => new Cipher(...args)), createDecipher: deprecated((...args) => new Decipher(...args)),
};
