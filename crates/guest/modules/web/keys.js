// Node's keys: KeyObject, their forms as PEM, DER and JWK, pairs of keys, signatures, encryption and agreement with them.
const { Buffer } = require('node/buffer');
const { Writable } = require('node/stream');
const forms = require('web/asymmetric');
const { codes } = require('web/errors');
const { providerError } = require('web/ossl');
const { validateFunction, validateInteger, validateObject, validateOneOf, validateString, validateUint32 } = require('web/validators');
const { digest } = natives;
const encrypted = () => require('web/encrypted-keys');

const { CURVES, plain, rsa, curves } = forms;
// Node's own numbers.
const constants = {
  OPENSSL_VERSION_NUMBER: 0x30000130, DH_CHECK_P_NOT_SAFE_PRIME: 2, DH_CHECK_P_NOT_PRIME: 1, DH_UNABLE_TO_CHECK_GENERATOR: 4, DH_NOT_SUITABLE_GENERATOR: 8,
  RSA_PKCS1_PADDING: 1, RSA_NO_PADDING: 3, RSA_PKCS1_OAEP_PADDING: 4, RSA_X931_PADDING: 5, RSA_PKCS1_PSS_PADDING: 6, RSA_PSS_SALTLEN_DIGEST: -1, RSA_PSS_SALTLEN_AUTO: -2, RSA_PSS_SALTLEN_MAX_SIGN: -2,
  POINT_CONVERSION_COMPRESSED: 2, POINT_CONVERSION_UNCOMPRESSED: 4, POINT_CONVERSION_HYBRID: 6, defaultCoreCipherList: '', TLS1_VERSION: 769, TLS1_1_VERSION: 770, TLS1_2_VERSION: 771, TLS1_3_VERSION: 772,
};
const coded = (Kind, code, message) => Object.assign(new Kind(message), { code });
const unsupported = () => coded(Error, 'ERR_OSSL_UNSUPPORTED', 'error:1E08010C:DECODER routines::unsupported');
const KINDS = { Ed25519: 'ed25519', X25519: 'x25519' };
const MADE = Symbol('made here');

class KeyObject {
  #type; #material;
  constructor(type, material, made) {
    if (made !== MADE) {
      if (!['secret', 'public', 'private'].includes(type)) throw new codes.ERR_INVALID_ARG_VALUE('type', type);
      throw new codes.ERR_INVALID_ARG_TYPE('handle', 'object', material);
    }
    this.#type = type;
    this.#material = material;
  }
  static material(key) { return key.#material; }
  static from(key) {
    const content = require('web/crypto').inner.contents.get(key);
    if (content === undefined) throw new codes.ERR_INVALID_ARG_TYPE('key', 'CryptoKey', key);
    return content.secret !== undefined ? secretKey(content.secret) : objectOf(content.type, content.material);
  }
  get type() { return this.#type; }
  get symmetricKeySize() { return this.#type === 'secret' ? this.#material.byteLength : undefined; }
  get asymmetricKeyType() {
    if (this.#type === 'secret') return undefined;
    return KINDS[this.#material.kind] ?? this.#material.variant ?? this.#material.kind;
  }
  get asymmetricKeyDetails() {
    if (this.#type === 'secret') return undefined;
    if (this.#material.kind === 'ec') return { namedCurve: CURVES[this.#material.curve].node };
    if (this.#material.kind !== 'rsa') return {};
    const [n, e] = this.#material.numbers.map((it) => new Uint8Array(it));
    return { modulusLength: n.length * 8 - Math.clz32(n[0]) + 24, publicExponent: e.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n), ...this.#material.details };
  }
  equals(other) {
    if (!(other instanceof KeyObject)) throw new codes.ERR_INVALID_ARG_TYPE('otherKeyObject', 'KeyObject', other);
    if (other.type !== this.#type) return false;
    const shown = (key) => (key.type === 'secret' ? key.#material : plain(key.type === 'public' ? forms.toSpki(key.#material) : forms.toPkcs8(key.#material)));
    return forms.same(shown(this), shown(other));
  }
  export(options = {}) {
    if (this.#type === 'secret') {
      if (options !== undefined) validateObject(options, 'options');
      if (options.format !== undefined) validateOneOf(options.format, 'options.format', [undefined, 'buffer', 'jwk']);
      return options.format === 'jwk' ? { kty: 'oct', k: Buffer.from(this.#material).toString('base64url') } : Buffer.from(this.#material.slice(0));
    }
    return exported(this.#type, this.#material, options);
  }
  toCryptoKey(algorithm, extractable, usages) {
    const { inner } = require('web/crypto');
    const bytes = this.#type === 'secret' ? this.#material : plain(this.#type === 'public' ? forms.toSpki(this.#material) : forms.toPkcs8(this.#material));
    return inner.importAny(this.#type === 'secret' ? 'raw' : this.#type === 'public' ? 'spki' : 'pkcs8', bytes, inner.normalize('importKey', algorithm), extractable, usages);
  }
}
Object.defineProperty(KeyObject.prototype, Symbol.toStringTag, { value: 'KeyObject', configurable: true });
const materialOf = KeyObject.material;
class SecretKeyObject extends KeyObject {}
class PublicKeyObject extends KeyObject {}
class PrivateKeyObject extends KeyObject {}
const objectOf = (type, material) => new { secret: SecretKeyObject, public: PublicKeyObject, private: PrivateKeyObject }[type](type, material, MADE);
const secretKey = (bytes) => objectOf('secret', plain(bytes));

const pem = (label, bytes, header = '') => `-----BEGIN ${label}-----\n${header}${Buffer.from(plain(bytes)).toString('base64').replace(/.{64}(?=.)/g, '$&\n')}\n-----END ${label}-----\n`;
// In which form a key is asked for, as Node checks it: the first mistake is told by its property.
const isText = (value) => typeof value === 'string' || ArrayBuffer.isView(value) || value instanceof ArrayBuffer;
const formAsked = (asked, kind, isPublic, within) => {
  const wrongly = (property) => new codes.ERR_INVALID_ARG_VALUE(`${within}.${property}`, asked[property]);
  const { format, type, cipher, passphrase } = asked;
  if (!['pem', 'der', 'jwk'].includes(format)) throw wrongly('format');
  if (format !== 'jwk' || type !== undefined) {
    if (!(isPublic ? ['pkcs1', 'spki'] : ['pkcs1', 'pkcs8', 'sec1']).includes(type)) throw wrongly('type');
    if (type === 'pkcs1' && kind !== 'rsa') throw new codes.ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS(type, 'can only be used for RSA keys');
    if (type === 'sec1' && kind !== 'ec') throw new codes.ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS(type, 'can only be used for EC keys');
  }
  if (isPublic) return asked;
  if (format === 'jwk' && passphrase !== undefined) throw new codes.ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS('jwk', 'does not support encryption');
  if (cipher === undefined || cipher === null) {
    if (passphrase !== undefined) throw wrongly('cipher');
    return asked;
  }
  if (typeof cipher !== 'string') throw wrongly('cipher');
  if (format === 'der' && type !== 'pkcs8') throw new codes.ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS(type, 'does not support encryption');
  if (!isText(passphrase)) throw wrongly('passphrase');
  encrypted().cipherOf(cipher);
  return asked;
};
// What an object says of a key of RSA-PSS a JWK could not; of one of Diffie and Hellman there is none.
const jwkOf = (material) => {
  if (material.variant === 'rsa-pss' || material.kind === 'dh') throw coded(Error, 'ERR_CRYPTO_JWK_UNSUPPORTED_KEY_TYPE', 'Unsupported JWK Key Type.');
  return forms.toJwk(material);
};
const exported = (type, material, options) => {
  validateObject(options, 'options');
  return inForm(type, material, formAsked(options, material.variant ?? material.kind, type === 'public', 'options'));
};
const inForm = (type, material, { format, type: form, cipher, passphrase }) => {
  if (format === 'jwk') return jwkOf(type === 'public' ? forms.publicOf(material) : material);
  let made;
  if (type === 'public') made = form === 'spki' ? ['PUBLIC KEY', forms.toSpki(material)] : ['RSA PUBLIC KEY', forms.toPkcs1Public(material)];
  else {
    made = form === 'pkcs8' ? ['PRIVATE KEY', forms.toPkcs8(material)] : form === 'pkcs1' ? ['RSA PRIVATE KEY', forms.toPkcs1Private(material)] : ['EC PRIVATE KEY', forms.toSec1(material)];
    if (cipher !== undefined && cipher !== null) {
      if (form !== 'pkcs8') {
        const [header, sealed] = encrypted().sealOlder(made[1], cipher, bytesOf(passphrase));
        return pem(made[0], sealed, header);
      }
      made = ['ENCRYPTED PRIVATE KEY', encrypted().seal(made[1], cipher, bytesOf(passphrase))];
    }
  }
  return format === 'der' ? Buffer.from(plain(made[1])) : pem(...made);
};

const bytesOf = (data, encoding, name = 'key') => {
  if (typeof data === 'string') return Buffer.from(data, encoding === 'buffer' ? 'utf8' : encoding);
  if (data instanceof ArrayBuffer) return Buffer.from(data);
  if (ArrayBuffer.isView(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  throw new codes.ERR_INVALID_ARG_TYPE(name, ['string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], data);
};
const PEM = /-----BEGIN ([A-Z0-9 ]+)-----\s*(?:Proc-Type: 4,ENCRYPTED\s+DEK-Info: ([\w-]+),([0-9A-Fa-f]+)\s+)?([A-Za-z0-9+/=\s]*?)-----END \1-----/;
const fromPem = (text, passphrase) => {
  const found = PEM.exec(text);
  if (found === null) throw unsupported();
  const [, label, cipher, iv, text64] = found;
  const bytes = Buffer.from(text64, 'base64');
  const isSealed = cipher !== undefined || label === 'ENCRYPTED PRIVATE KEY';
  if (!isSealed) return fromLabel(label, bytes, passphrase);
  if (passphrase === undefined || passphrase === null) throw coded(Error, 'ERR_OSSL_CRYPTO_INTERRUPTED_OR_CANCELLED', 'error:07880109:common libcrypto routines::interrupted or cancelled');
  if (cipher === undefined) return fromLabel(label, bytes, passphrase);
  return fromLabel(label, encrypted().openOlder(bytes, cipher, Buffer.from(iv, 'hex'), bytesOf(passphrase)));
};
const fromLabel = (label, bytes, passphrase) => {
  switch (label) {
    case 'PUBLIC KEY': return ['public', forms.fromSpki(bytes)];
    case 'RSA PUBLIC KEY': return ['public', forms.fromPkcs1Public(bytes)];
    case 'PRIVATE KEY': return ['private', forms.fromPkcs8(bytes)];
    case 'RSA PRIVATE KEY': return ['private', forms.fromPkcs1Private(bytes)];
    case 'EC PRIVATE KEY': return ['private', forms.fromSec1(bytes)];
    case 'ENCRYPTED PRIVATE KEY':
      if (passphrase === undefined || passphrase === null) throw coded(TypeError, 'ERR_MISSING_PASSPHRASE', 'Passphrase required for encrypted key');
      return ['private', forms.fromPkcs8(encrypted().open(bytes, bytesOf(passphrase)))];
    default: throw unsupported();
  }
};
const read = (work) => {
  try {
    return work();
  } catch (error) {
    if (error instanceof forms.Malformed) throw unsupported();
    throw error;
  }
};
// What a caller names as a key: its type and what it holds. A private key is as good as its public one.
const keyGiven = (key, wanted) => {
  if (key instanceof KeyObject) {
    if (key.type === 'secret' || (wanted === 'private' && key.type !== 'private')) throw new codes.ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE(key.type, wanted === 'private' ? 'private' : 'private or public');
    return [key.type, materialOf(key)];
  }
  const content = require('node/util/types').isCryptoKey(key) ? require('web/crypto').inner.contents.get(key) : undefined;
  if (content?.material !== undefined) return [content.type, content.material];
  const options = typeof key === 'object' && key !== null && !ArrayBuffer.isView(key) && !(key instanceof ArrayBuffer) ? key : { key };
  if (options.key instanceof KeyObject || require('node/util/types').isCryptoKey(options.key)) return keyGiven(options.key, wanted);
  if (options.format === 'jwk') {
    validateObject(options.key, 'key.key');
    try {
      return [options.key.d === undefined ? 'public' : 'private', forms.fromJwk(options.key)];
    } catch {
      throw new codes.ERR_CRYPTO_INVALID_JWK();
    }
  }
  if (typeof options.key !== 'string' && !ArrayBuffer.isView(options.key) && !(options.key instanceof ArrayBuffer)) {
    throw new codes.ERR_INVALID_ARG_TYPE(options === key ? 'key.key' : 'key', ['string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView', 'KeyObject', 'CryptoKey', ...(wanted === 'public' || options === key ? [] : [])], options === key ? options.key : key);
  }
  const bytes = bytesOf(options.key, options.encoding);
  if (options.format !== 'der') return read(() => fromPem(bytes.toString('latin1'), options.passphrase));
  // What it begins with tells a sealed key, whose algorithm comes first, and a private one, whose version does.
  const [first, length, version] = bytes.subarray(bytes[1] < 0x80 ? 2 : 2 + (bytes[1] & 0x7f));
  const pkcs1 = first === 2 && length === 1 && version === 0 ? 'RSA PRIVATE KEY' : 'RSA PUBLIC KEY';
  const label = { spki: 'PUBLIC KEY', pkcs8: first === 0x30 ? 'ENCRYPTED PRIVATE KEY' : 'PRIVATE KEY', sec1: 'EC PRIVATE KEY', pkcs1 }[options.type];
  if (label === undefined) throw new codes.ERR_INVALID_ARG_VALUE('key.type', options.type);
  return read(() => fromLabel(label, bytes, options.passphrase));
};
const privateGiven = (key) => {
  const [type, material] = keyGiven(key, 'private');
  if (type !== 'private') throw unsupported();
  return material;
};
const createPublicKey = (key) => {
  if (key instanceof KeyObject && key.type === 'public') throw new codes.ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE('public', 'private');
  return objectOf('public', forms.publicOf(keyGiven(key, 'public')[1]));
};
const createPrivateKey = (key) => objectOf('private', privateGiven(key));
const createSecretKey = (key, encoding) => {
  const bytes = bytesOf(key, encoding);
  return secretKey(new Uint8Array(bytes).buffer);
};

const hashOf = (name) => require('node/crypto').hashName(name);
const webName = (name) => require('node/crypto').webHash(name);
const curveNamed = (name) => {
  validateString(name, 'options.namedCurve');
  const found = Object.keys(CURVES).find((one) => one === name || CURVES[one].node === name);
  if (found === undefined) throw coded(TypeError, 'ERR_CRYPTO_INVALID_CURVE', 'Invalid EC curve name');
  return found;
};
const generateKeySync = (type, options) => {
  validateString(type, 'type');
  validateObject(options, 'options');
  if (type !== 'hmac' && type !== 'aes') throw new codes.ERR_INVALID_ARG_VALUE('type', type, 'must be a supported key type');
  validateInteger(options.length, 'options.length', type === 'hmac' ? 8 : undefined, type === 'hmac' ? 2 ** 31 - 1 : undefined);
  if (type === 'aes') validateOneOf(options.length, 'options.length', [128, 192, 256]);
  return secretKey(require('node/crypto').randomBytes(Math.floor(options.length / 8)));
};

const paddingOf = (key) => {
  const { padding } = typeof key === 'object' && key !== null ? key : {};
  if (padding !== undefined && !Number.isInteger(padding)) throw new codes.ERR_INVALID_ARG_VALUE('options.padding', padding);
  return padding;
};
const saltOf = (key, hash, bits, signing) => {
  const { saltLength } = key;
  const most = Math.ceil((bits - 1) / 8) - hash - 2;
  if (saltLength === undefined) return signing ? most : -2;
  if (!Number.isInteger(saltLength)) throw new codes.ERR_INVALID_ARG_VALUE('options.saltLength', saltLength);
  return saltLength === constants.RSA_PSS_SALTLEN_DIGEST ? hash : saltLength === constants.RSA_PSS_SALTLEN_AUTO ? (signing ? most : -2) : saltLength;
};
const PKCS1 = -1;
const rsaSalt = (key, material, hash, signing) => {
  if (material.variant === 'rsa-pss' && (paddingOf(key) ?? constants.RSA_PKCS1_PSS_PADDING) !== constants.RSA_PKCS1_PSS_PADDING) throw providerError('1C8000A5', 'illegal or unsupported padding mode');
  const pss = (paddingOf(key) ?? (material.variant === 'rsa-pss' ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING)) === constants.RSA_PKCS1_PSS_PADDING;
  const [n] = material.numbers.map((it) => new Uint8Array(it));
  return pss ? saltOf(key, hash, n.length * 8 - Math.clz32(n[0]) + 24, signing) : PKCS1;
};
const failed = () => coded(Error, 'ERR_CRYPTO_OPERATION_FAILED', 'The operation failed: key and parameters do not fit');
const isRaw = (key) => {
  const encoding = key?.dsaEncoding;
  if (encoding !== undefined && encoding !== 'der' && encoding !== 'ieee-p1363') throw new codes.ERR_INVALID_ARG_VALUE('options.dsaEncoding', encoding);
  return encoding === 'ieee-p1363';
};
const signed = (algorithm, data, key) => {
  const material = privateGiven(key);
  if (material.kind === 'Ed25519') return Buffer.from(curves.ed25519Sign(material.secret, plain(data)));
  const name = webName(algorithm ?? 'sha256');
  const hashed = digest(name, plain(data));
  if (material.details !== undefined && webName(material.details.hashAlgorithm) !== name) throw coded(Error, 'ERR_OSSL_RSA_DIGEST_NOT_ALLOWED', 'error:0200007B:rsa routines::digest not allowed');
  const made = material.kind === 'ec' ? curves.ecSign(material.curve, material.secret, hashed) : material.kind === 'rsa' ? rsa.rsaSign(material.numbers, name, rsaSalt(key, material, hashed.byteLength, true), hashed) : undefined;
  if (made === undefined || made === null) throw failed();
  return Buffer.from(material.kind === 'ec' && !isRaw(key) ? plain(forms.signatureToDer(made)) : made);
};
const verified = (algorithm, data, key, signature) => {
  const [, material] = keyGiven(key, 'public');
  if (material.kind === 'Ed25519') return curves.ed25519Verify(material.point, plain(data), plain(signature));
  const name = webName(algorithm ?? 'sha256');
  const hashed = digest(name, plain(data));
  if (material.details !== undefined && webName(material.details.hashAlgorithm) !== name) throw coded(Error, 'ERR_OSSL_RSA_DIGEST_NOT_ALLOWED', 'error:0200007B:rsa routines::digest not allowed');
  if (material.kind === 'rsa') return rsa.rsaVerify(material.numbers.slice(0, 2), name, rsaSalt(key, material, hashed.byteLength, false), hashed, plain(signature));
  if (material.kind !== 'ec') throw failed();
  let raw = signature;
  if (!isRaw(key)) {
    try {
      raw = forms.signatureFromDer(plain(signature), material.curve);
    } catch {
      return false;
    }
  }
  return curves.ecVerify(material.curve, material.point, hashed, plain(raw));
};
class Gathered extends Writable {
  #parts = [];
  #algorithm;
  constructor(algorithm, options) {
    super(options);
    validateString(algorithm, 'algorithm');
    try {
      this.#algorithm = hashOf(algorithm);
    } catch {
      throw new Error('Invalid digest');
    }
  }
  update(data, encoding) {
    this.#parts.push(bytesOf(data, encoding, 'data'));
    return this;
  }
  _write(chunk, encoding, done) {
    this.update(chunk, encoding);
    done();
  }
  static taken(gathered) { return [gathered.#algorithm, Buffer.concat(gathered.#parts)]; }
}
class Sign extends Gathered {
  sign(key, encoding) {
    if (!key) throw new codes.ERR_CRYPTO_SIGN_KEY_REQUIRED();
    const made = signed(...Gathered.taken(this), key);
    return encoding === undefined || encoding === 'buffer' ? made : made.toString(encoding);
  }
}
class Verify extends Gathered {
  verify(key, signature, encoding) { return verified(...Gathered.taken(this), key, bytesOf(signature, encoding, 'signature')); }
}
const later = (callback, work) => {
  if (callback === undefined) return work();
  validateFunction(callback, 'callback');
  let value;
  try {
    value = work();
  } catch (error) {
    queueMicrotask(() => callback(error));
    return undefined;
  }
  queueMicrotask(() => callback(null, value));
  return undefined;
};
const sign = (algorithm, data, key, callback) => {
  if (algorithm !== null && algorithm !== undefined) validateString(algorithm, 'algorithm');
  const bytes = bytesOf(data, undefined, 'data');
  if (!key) throw new codes.ERR_CRYPTO_SIGN_KEY_REQUIRED();
  return later(callback, () => signed(algorithm, bytes, key));
};
const verify = (algorithm, data, key, signature, callback) => {
  if (algorithm !== null && algorithm !== undefined) validateString(algorithm, 'algorithm');
  const bytes = bytesOf(data, undefined, 'data');
  const told = bytesOf(signature, undefined, 'signature');
  return later(callback, () => verified(algorithm, bytes, key, told));
};

const oaepOf = (key) => {
  const { oaepHash = 'sha1', oaepLabel } = typeof key === 'object' && key !== null ? key : {};
  return [webName(oaepHash), oaepLabel === undefined ? '' : Buffer.from(oaepLabel).toString()];
};
const rawRsa = (numbers, exponent, data) => {
  const { padded } = require('web/der');
  return padded(rsa.modPow(plain(data), exponent, numbers[0]), numbers[0].byteLength);
};
const crypted = (key, data, seal) => {
  const material = seal ? keyGiven(key, 'public')[1] : privateGiven(key);
  if (material.kind !== 'rsa' || material.variant === 'rsa-pss') throw providerError('1C8000B2', 'operation not supported for this keytype');
  const padding = paddingOf(key) ?? constants.RSA_PKCS1_OAEP_PADDING;
  const bytes = plain(bytesOf(data, key?.encoding, 'buffer'));
  const numbers = seal ? material.numbers.slice(0, 2) : material.numbers;
  if (padding === constants.RSA_NO_PADDING) return Buffer.from(plain(rawRsa(numbers, seal ? numbers[1] : numbers[2], bytes)));
  const [hash, label] = padding === constants.RSA_PKCS1_OAEP_PADDING ? oaepOf(key) : ['', ''];
  const made = (seal ? rsa.rsaEncrypt : rsa.rsaDecrypt)(numbers, hash, label, bytes);
  if (made === undefined || made === null) throw coded(Error, seal ? 'ERR_OSSL_RSA_DATA_TOO_LARGE_FOR_KEY_SIZE' : 'ERR_OSSL_RSA_OAEP_DECODING_ERROR', seal ? 'error:0200006E:rsa routines::data too large for key size' : 'error:02000079:rsa routines::oaep decoding error');
  return Buffer.from(made);
};
const diffieHellman = (options) => {
  validateObject(options, 'options');
  const { privateKey, publicKey } = options;
  if (!(privateKey instanceof KeyObject)) throw new codes.ERR_INVALID_ARG_VALUE('options.privateKey', privateKey);
  if (!(publicKey instanceof KeyObject)) throw new codes.ERR_INVALID_ARG_VALUE('options.publicKey', publicKey);
  if (privateKey.type !== 'private') throw new codes.ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE(privateKey.type, 'private');
  const [mine, theirs] = [materialOf(privateKey), materialOf(publicKey)];
  if (mine.kind !== theirs.kind) throw new codes.ERR_CRYPTO_INCOMPATIBLE_KEY('key types for Diffie-Hellman', `${privateKey.asymmetricKeyType} and ${publicKey.asymmetricKeyType}`);
  if (mine.kind === 'dh' && !(forms.same(mine.prime, theirs.prime) && forms.same(mine.generator, theirs.generator))) throw providerError('1C8000CB', 'mismatching domain parameters');
  if (mine.kind === 'dh') return Buffer.from(plain(require('web/der').padded(rsa.modPow(theirs.point, mine.secret, mine.prime), mine.prime.byteLength)));
  if (mine.kind === 'ec' && mine.curve !== theirs.curve) throw providerError('1C8000CB', 'mismatching domain parameters');
  const shared = mine.kind === 'ec' && mine.curve === theirs.curve ? curves.ecAgree(mine.curve, mine.secret, theirs.point) : mine.kind === 'X25519' ? curves.x25519Agree(mine.secret, theirs.point) : undefined;
  if (shared === undefined || shared === null) throw failed();
  return Buffer.from(shared);
};

module.exports = {
  KeyObject, constants, createPublicKey, createPrivateKey, createSecretKey, generateKeySync,
  generateKey: (type, options, callback) => {
    if (typeof options === 'function') [options, callback] = [undefined, options];
    const key = generateKeySync(type, options);
    validateFunction(callback, 'callback');
    queueMicrotask(() => callback(null, key));
  },
  Sign, Verify, sign, verify, diffieHellman, crypted, rawRsa, keyGiven, privateGiven, paddingOf, objectOf, formAsked, inForm, pem, hashOf, webName, curveNamed, bytesOf,
};
