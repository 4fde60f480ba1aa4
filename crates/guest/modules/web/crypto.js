// SubtleCrypto over the engine's natives (RustCrypto). What is not here rejects with NotSupportedError.
const { digest, hmac, hmacVerify, pbkdf2, hkdf, entropy } = natives;
const { aes, aesGcm } = natives.part('ciphers');

const DIGEST_BYTES = { 'SHA-1': 20, 'SHA-256': 32, 'SHA-384': 48, 'SHA-512': 64 };
const BLOCK_BYTES = { 'SHA-1': 64, 'SHA-256': 64, 'SHA-384': 128, 'SHA-512': 128 };
// GCM's common parameters: RustCrypto makes a cipher for each combination of lengths.
const GCM_IV_BYTES = [12, 16];
const GCM_TAG_BITS = [96, 104, 112, 120, 128];
const BLOCK = 16;
const CIPHERS = ['AES-GCM', 'AES-CBC', 'AES-CTR'];
const SECRETS = ['HMAC', ...CIPHERS, 'AES-KW'];
// Deriving a key cannot be interrupted; this many rounds take some seconds.
const PBKDF2_ROUNDS_MAX = 4_000_000;
const USAGES = ['encrypt', 'decrypt', 'sign', 'verify', 'deriveKey', 'deriveBits', 'wrapKey', 'unwrapKey'];
const ALLOWED = {
  HMAC: ['sign', 'verify'],
  'AES-GCM': ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey'],
  'AES-CBC': ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey'],
  'AES-CTR': ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey'],
  'AES-KW': ['wrapKey', 'unwrapKey'],
  PBKDF2: ['deriveKey', 'deriveBits'],
  HKDF: ['deriveKey', 'deriveBits'],
};

const fail = (message, name) => new DOMException(message, name);
const unsupported = (what) => fail(`${what} is not supported`, 'NotSupportedError');
const bytes = (value, what = 'data') => {
  if (value instanceof ArrayBuffer) return value.slice(0);
  if (ArrayBuffer.isView(value)) return value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength);
  throw new TypeError(`${what} must be an ArrayBuffer or a view of one`);
};
// An algorithm by its name, in the standard's spelling.
const named = (value, known) => {
  const given = typeof value === 'string' ? { name: value } : value;
  if (typeof given !== 'object' || given === null || given.name === undefined) throw new TypeError('Algorithm: name is required');
  const wanted = `${given.name}`.toUpperCase();
  const name = known.find((one) => one.toUpperCase() === wanted);
  if (name === undefined) throw fail('Unrecognized algorithm name', 'NotSupportedError');
  return { ...given, name };
};
const hashOf = (value) => named(value, Object.keys(DIGEST_BYTES)).name;

const secrets = new WeakMap();
const MADE = Symbol('made here');
class CryptoKey {
  #fields;
  constructor(made, fields) {
    if (made !== MADE) throw new TypeError('Illegal constructor');
    this.#fields = fields;
  }
  get type() { return 'secret'; }
  get extractable() { return this.#fields.extractable; }
  get algorithm() { return this.#fields.algorithm; }
  get usages() { return this.#fields.usages; }
  get [Symbol.toStringTag]() { return 'CryptoKey'; }
}
const makeKey = (algorithm, secret, extractable, usages) => {
  const asked = [...usages];
  for (const usage of asked) if (!USAGES.includes(usage)) throw new TypeError(`${usage} is not a key usage`);
  if (asked.some((usage) => !ALLOWED[algorithm.name].includes(usage))) throw fail(`Unsupported key usage for a ${algorithm.name} key`, 'SyntaxError');
  if (asked.length === 0) throw fail('Usages cannot be empty when creating a key.', 'SyntaxError');
  const key = new CryptoKey(MADE, { algorithm, extractable: !!extractable, usages: USAGES.filter((usage) => asked.includes(usage)) });
  secrets.set(key, secret);
  return key;
};
const secretOf = (key, algorithm, usage) => {
  const secret = secrets.get(key);
  if (secret === undefined) throw new TypeError('the key must be a CryptoKey');
  if (key.algorithm.name !== algorithm.name) throw fail('Key algorithm mismatch', 'InvalidAccessError');
  if (!key.usages.includes(usage)) throw fail(`The key cannot be used to ${usage}`, 'InvalidAccessError');
  return secret;
};
const base64url = {
  encode: (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, ''),
  decode: (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0)).buffer,
};
const randomBytes = (length) => entropy(length);

// The algorithm of a new key, and the bytes it has or needs.
const keyAlgorithm = (algorithm, secret) => {
  const bits = secret === undefined ? undefined : secret.byteLength * 8;
  switch (algorithm.name) {
    case 'HMAC': {
      const hash = hashOf(algorithm.hash);
      const length = bits ?? algorithm.length ?? BLOCK_BYTES[hash] * 8;
      if (length === 0) throw fail('Zero-length key is not supported', bits === undefined ? 'OperationError' : 'DataError');
      if (length % 8 !== 0) throw unsupported('a key whose length is no whole number of bytes');
      return { name: 'HMAC', hash: { name: hash }, length };
    }
    case 'AES-GCM': case 'AES-CBC': case 'AES-CTR': case 'AES-KW': {
      const length = bits ?? algorithm.length;
      if (length !== 128 && length !== 192 && length !== 256) throw fail('Invalid key length', bits === undefined ? 'OperationError' : 'DataError');
      return { name: algorithm.name, length };
    }
    default: return { name: algorithm.name };
  }
};
const NO_BYTES = new ArrayBuffer(0);
const wrong = () => fail('The operation failed for an operation-specific reason', 'OperationError');
const gcm = (algorithm, secret, data, seal) => {
  const iv = bytes(algorithm.iv, 'algorithm.iv');
  const tag = algorithm.tagLength ?? 128;
  if (![32, 64, ...GCM_TAG_BITS].includes(tag)) throw fail(`${tag} is not a valid AES-GCM tag length`, 'OperationError');
  if (!GCM_TAG_BITS.includes(tag)) throw unsupported(`a tag of ${tag} bits`);
  if (!GCM_IV_BYTES.includes(iv.byteLength) || (iv.byteLength === BLOCK && tag !== 128)) throw unsupported(`an iv of ${iv.byteLength} bytes with a tag of ${tag} bits`);
  if (!seal && data.byteLength < tag / 8) throw fail('The provided data is too small.', 'OperationError');
  const more = algorithm.additionalData === undefined ? NO_BYTES : bytes(algorithm.additionalData, 'algorithm.additionalData');
  return aesGcm(seal, tag / 8, secret, iv, more, data);
};
// One block that counts `length` bits at its end: a counter that comes around goes on from zero, which the widths of RustCrypto's do for themselves.
const ctr = (algorithm, secret, data) => {
  const counter = bytes(algorithm.counter, 'algorithm.counter');
  if (counter.byteLength !== BLOCK) throw fail('algorithm.counter must contain exactly 16 bytes', 'OperationError');
  const { length } = algorithm;
  if (!(length > 0 && length <= 128)) throw fail('AES-CTR algorithm.length must be between 1 and 128', 'OperationError');
  const blocks = BigInt(Math.ceil(data.byteLength / BLOCK));
  const room = 1n << BigInt(length);
  if (blocks > room) throw fail('The data is too long for the counter', 'OperationError');
  const view = new DataView(counter);
  const value = (view.getBigUint64(0) << 64n) | view.getBigUint64(8);
  const left = room - (value % room);
  if (blocks <= left) return aes('ctr128', true, secret, counter, data);
  const begin = value - (value % room);
  const again = new ArrayBuffer(BLOCK);
  new DataView(again).setBigUint64(0, begin >> 64n);
  new DataView(again).setBigUint64(8, BigInt.asUintN(64, begin));
  const split = Number(left) * BLOCK;
  const made = new Uint8Array(data.byteLength);
  made.set(new Uint8Array(aes('ctr128', true, secret, counter, data.slice(0, split))));
  made.set(new Uint8Array(aes('ctr128', true, secret, again, data.slice(split))), split);
  return made.buffer;
};
const cbc = (algorithm, secret, data, seal) => {
  const iv = bytes(algorithm.iv, 'algorithm.iv');
  if (iv.byteLength !== BLOCK) throw fail('algorithm.iv must contain exactly 16 bytes', 'OperationError');
  return aes('cbc', seal, secret, iv, data);
};
const ciphered = (algorithm, secret, data, seal) => {
  const made = algorithm.name === 'AES-GCM' ? gcm(algorithm, secret, data, seal)
    : algorithm.name === 'AES-CTR' ? ctr(algorithm, secret, data)
    : algorithm.name === 'AES-CBC' ? cbc(algorithm, secret, data, seal)
    : data.byteLength % 8 === 0 ? aes('kw', seal, secret, NO_BYTES, data) : undefined;
  if (made === undefined || made === null) throw wrong();
  return made;
};
const derive = (algorithm, secret, length) => {
  if (length === null || length === undefined || length % 8 !== 0) throw fail('length must be a multiple of 8', 'OperationError');
  const hash = hashOf(algorithm.hash);
  const salt = bytes(algorithm.salt, 'algorithm.salt');
  if (algorithm.name === 'HKDF') {
    const derived = hkdf(hash, secret, salt, bytes(algorithm.info, 'algorithm.info'), length / 8);
    if (derived === undefined) throw fail('The length is too large', 'OperationError');
    return derived;
  }
  const rounds = Math.trunc(Number(algorithm.iterations));
  if (!(rounds > 0)) throw fail('iterations cannot be zero', 'OperationError');
  if (rounds * Math.max(1, Math.ceil(length / 8 / DIGEST_BYTES[hash])) > PBKDF2_ROUNDS_MAX) throw unsupported(`PBKDF2 of more than ${PBKDF2_ROUNDS_MAX} rounds in all`);
  return pbkdf2(hash, secret, salt, rounds, length / 8);
};

class SubtleCrypto {
  constructor(made) {
    if (made !== MADE) throw new TypeError('Illegal constructor');
  }
  async digest(algorithm, data) {
    return digest(hashOf(algorithm), bytes(data));
  }
  async generateKey(algorithm, extractable, usages) {
    const made = keyAlgorithm(named(algorithm, SECRETS));
    return makeKey(made, randomBytes(made.length / 8), extractable, usages);
  }
  async importKey(format, data, algorithm, extractable, usages) {
    const wanted = named(algorithm, [...SECRETS, 'PBKDF2', 'HKDF']);
    const derives = wanted.name === 'PBKDF2' || wanted.name === 'HKDF';
    if (derives && extractable) throw fail(`${wanted.name} keys are not extractable`, 'SyntaxError');
    if (format !== 'raw' && (format !== 'jwk' || derives)) throw unsupported(`Unable to import a ${wanted.name} key of the format ${format}; it`);
    if (format === 'jwk' && (data?.kty !== 'oct' || typeof data.k !== 'string')) throw fail('Invalid keyData', 'DataError');
    const secret = format === 'jwk' ? base64url.decode(data.k) : bytes(data, 'keyData');
    return makeKey(keyAlgorithm(wanted, secret), secret, extractable, usages);
  }
  async exportKey(format, key) {
    const secret = secrets.get(key);
    if (secret === undefined) throw new TypeError('the key must be a CryptoKey');
    if (!key.extractable) throw fail('key is not extractable', 'InvalidAccessError');
    if (format === 'raw') return secret.slice(0);
    if (format !== 'jwk') throw unsupported(`the format ${format}`);
    const { name, hash, length } = key.algorithm;
    return { key_ops: [...key.usages], ext: true, kty: 'oct', k: base64url.encode(secret), alg: name !== 'HMAC' ? `A${length}${name.slice(4)}` : hash.name === 'SHA-1' ? 'HS1' : `HS${hash.name.slice(4)}` };
  }
  async sign(algorithm, key, data) {
    const wanted = named(algorithm, ['HMAC']);
    return hmac(key?.algorithm?.hash?.name, secretOf(key, wanted, 'sign'), bytes(data));
  }
  async verify(algorithm, key, signature, data) {
    const wanted = named(algorithm, ['HMAC']);
    return hmacVerify(key?.algorithm?.hash?.name, secretOf(key, wanted, 'verify'), bytes(signature, 'signature'), bytes(data));
  }
  async encrypt(algorithm, key, data) {
    const wanted = named(algorithm, CIPHERS);
    const secret = secretOf(key, wanted, 'encrypt');
    return ciphered(wanted, secret, bytes(data), true);
  }
  async decrypt(algorithm, key, data) {
    const wanted = named(algorithm, CIPHERS);
    const secret = secretOf(key, wanted, 'decrypt');
    return ciphered(wanted, secret, bytes(data), false);
  }
  async deriveBits(algorithm, key, length) {
    const wanted = named(algorithm, ['PBKDF2', 'HKDF']);
    return derive(wanted, secretOf(key, wanted, 'deriveBits'), length);
  }
  async deriveKey(algorithm, key, derivedKey, extractable, usages) {
    const wanted = named(algorithm, ['PBKDF2', 'HKDF']);
    const made = keyAlgorithm(named(derivedKey, SECRETS));
    const secret = derive(wanted, secretOf(key, wanted, 'deriveKey'), made.length);
    return makeKey(made, secret, extractable, usages);
  }
  async wrapKey(format, key, wrappingKey, algorithm) {
    const wanted = named(algorithm, [...CIPHERS, 'AES-KW']);
    const secret = secretOf(wrappingKey, wanted, 'wrapKey');
    const exported = await this.exportKey(format, key);
    return ciphered(wanted, secret, format === 'jwk' ? new TextEncoder().encode(JSON.stringify(exported)).buffer : exported, true);
  }
  async unwrapKey(format, wrapped, unwrappingKey, algorithm, keyAlgorithm, extractable, usages) {
    const wanted = named(algorithm, [...CIPHERS, 'AES-KW']);
    const opened = ciphered(wanted, secretOf(unwrappingKey, wanted, 'unwrapKey'), bytes(wrapped, 'wrappedKey'), false);
    return this.importKey(format, format === 'jwk' ? JSON.parse(new TextDecoder().decode(opened)) : opened, keyAlgorithm, extractable, usages);
  }
  get [Symbol.toStringTag]() { return 'SubtleCrypto'; }
}

module.exports = { subtle: new SubtleCrypto(MADE), SubtleCrypto, CryptoKey };
