// Node's createCipheriv: AES in CBC, CTR and GCM. The text is made when `final` is called, so `update` gives nothing before.
const { Buffer } = require('node/buffer');
const { Transform } = require('node/stream');
const { aes, aesGcm } = natives.part('ciphers');

const { codes } = require('web/errors');
const { validateString } = require('web/validators');

const NAMES = ['128', '192', '256'].flatMap((bits) => ['cbc', 'ctr', 'gcm'].map((mode) => `aes-${bits}-${mode}`));
const TAG_BYTES = 16;
const coded = (Kind, code, message) => Object.assign(new Kind(message), { code });
const plain = (data, encoding, name = 'data') => {
  const all = typeof data === 'string' ? Buffer.from(data, encoding) : data instanceof ArrayBuffer ? Buffer.from(data) : data;
  if (!ArrayBuffer.isView(all)) throw new codes.ERR_INVALID_ARG_TYPE(name, name === 'key' ? ['string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView', 'KeyObject', 'CryptoKey'] : ['string', 'Buffer', 'TypedArray', 'DataView'], data);
  return all.buffer.slice(all.byteOffset, all.byteOffset + all.byteLength);
};

class Cipheriv extends Transform {
  #mode; #key; #iv; #seal; #tag; #tagBytes; #aad = new ArrayBuffer(0); #padding = true; #parts = []; #done = false;
  constructor(seal, name, key, iv, options) {
    validateString(name, 'cipher');
    super(options);
    const known = name.toLowerCase();
    if (!NAMES.includes(known)) throw coded(Error, 'ERR_CRYPTO_UNKNOWN_CIPHER', 'Unknown cipher');
    if (iv === undefined || (iv !== null && typeof iv !== 'string' && !ArrayBuffer.isView(iv) && !(iv instanceof ArrayBuffer))) throw new codes.ERR_INVALID_ARG_TYPE('iv', ['string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], iv);
    const [, bits, mode] = known.split('-');
    this.#mode = mode;
    this.#seal = seal;
    this.#key = plain(require('node/util/types').isKeyObject(key) ? key.export() : key, 'utf8', 'key');
    this.#iv = iv === null ? new ArrayBuffer(0) : plain(iv);
    if (this.#key.byteLength !== bits / 8) throw coded(RangeError, 'ERR_CRYPTO_INVALID_KEYLEN', 'Invalid key length');
    if (mode === 'gcm' ? ![12, 16].includes(this.#iv.byteLength) : this.#iv.byteLength !== 16) throw coded(TypeError, 'ERR_CRYPTO_INVALID_IV', 'Invalid initialization vector');
    this.#tagBytes = options?.authTagLength ?? TAG_BYTES;
  }
  #take() {
    const made = Buffer.concat(this.#parts.splice(0));
    return plain(made);
  }
  update(data, from, to) {
    if (this.#done) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Trying to add data in unsupported state');
    this.#parts.push(Buffer.from(plain(data, from)));
    return to === undefined || to === 'buffer' ? Buffer.alloc(0) : '';
  }
  final(to) {
    if (this.#done) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Unsupported state');
    this.#done = true;
    const made = Buffer.from(this.#mode === 'gcm' ? this.#authenticated() : this.#bare());
    return to === undefined || to === 'buffer' ? made : made.toString(to);
  }
  #bare() {
    const data = this.#take();
    const mode = this.#mode === 'ctr' ? 'ctr128' : this.#padding ? 'cbc' : 'cbc-bare';
    const made = aes(mode, this.#seal, this.#key, this.#iv, data);
    if (made !== undefined && made !== null) return made;
    if (!this.#padding || data.byteLength % 16 !== 0 || data.byteLength === 0) throw coded(Error, 'ERR_OSSL_WRONG_FINAL_BLOCK_LENGTH', 'error:1C80006B:Provider routines::wrong final block length');
    throw coded(Error, 'ERR_OSSL_BAD_DECRYPT', 'error:1C800064:Provider routines::bad decrypt');
  }
  #authenticated() {
    const tag = this.#seal ? this.#tagBytes : this.#tag?.byteLength;
    const failed = () => new Error('Unsupported state or unable to authenticate data');
    if (tag === undefined) throw failed();
    const data = this.#seal ? this.#take() : plain(Buffer.concat([Buffer.from(this.#take()), Buffer.from(this.#tag)]));
    const made = aesGcm(this.#seal, tag, this.#key, this.#iv, this.#aad, data);
    if (made === undefined || made === null) throw failed();
    if (!this.#seal) return made;
    this.#tag = made.slice(made.byteLength - tag);
    return made.slice(0, made.byteLength - tag);
  }
  setAAD(data, options) { this.#aad = plain(data, options?.encoding); return this; }
  setAutoPadding(padding = true) { this.#padding = !!padding; return this; }
  getAuthTag() {
    if (!this.#seal || !this.#done || this.#tag === undefined) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Invalid state for operation getAuthTag');
    return Buffer.from(this.#tag);
  }
  setAuthTag(tag, encoding) {
    if (this.#seal) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Invalid state for operation setAuthTag');
    this.#tag = plain(tag, encoding);
    return this;
  }
  _transform(chunk, encoding, done) {
    this.update(chunk, encoding);
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
const getCipherInfo = (name) => {
  const found = typeof name === 'string' && NAMES.includes(name.toLowerCase()) ? name.toLowerCase() : undefined;
  if (found === undefined) return undefined;
  const [, bits, mode] = found.split('-');
  return { mode, name: mode === 'gcm' ? `id-aes${bits}-GCM` : found, nid: 0, blockSize: mode === 'cbc' ? 16 : undefined, ivLength: mode === 'gcm' ? 12 : 16, keyLength: bits / 8 };
};
module.exports = {
  NAMES, getCipherInfo, Cipheriv,
  Decipheriv: Cipheriv,
  createCipheriv: (name, key, iv, options) => new Cipheriv(true, name, key, iv, options),
  createDecipheriv: (name, key, iv, options) => new Cipheriv(false, name, key, iv, options),
};
