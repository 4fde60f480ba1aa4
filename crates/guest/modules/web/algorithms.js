// The algorithms of Web Crypto: which operation knows which, with what parameters, and what each does.
const { digest, hmac, hmacVerify, pbkdf2, hkdf, entropy } = natives;
const { aes, aesGcm } = natives.part('ciphers');
const keys = () => require('web/asymmetric');

const DIGEST_BYTES = { 'SHA-1': 20, 'SHA-256': 32, 'SHA-384': 48, 'SHA-512': 64 };
const BLOCK_BYTES = { 'SHA-1': 64, 'SHA-256': 64, 'SHA-384': 128, 'SHA-512': 128 };
const GCM_TAG_BITS = [32, 64, 96, 104, 112, 120, 128];
const BLOCK = 16;
const NO_BYTES = new ArrayBuffer(0);
// Deriving a key cannot be interrupted; this many rounds take some seconds.
const PBKDF2_ROUNDS_MAX = 4_000_000;
const RSA_BITS_MAX = 4096;

const fail = (message, name) => new DOMException(message, name);
const unsupported = (what) => fail(`${what} is not supported`, 'NotSupportedError');
const wrong = () => fail('The operation failed for an operation-specific reason', 'OperationError');
const needed = (made) => {
  if (made === undefined || made === null) throw wrong();
  return made;
};
const bytes = (value, what = 'data') => {
  if (value instanceof ArrayBuffer) return value.slice(0);
  if (ArrayBuffer.isView(value) && value.buffer instanceof ArrayBuffer) return value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength);
  throw Object.assign(new TypeError(`${what} must be an ArrayBuffer or a view of one`), { code: 'ERR_INVALID_ARG_TYPE' });
};
const number = (most) => (value, name) => {
  const given = Math.trunc(Number(value));
  if (!(given >= 0 && given <= most)) throw new TypeError(`${name} is out of range`);
  return given;
};
const octet = number(0xff);
const short = number(0xffff);
const long = number(0xffffffff);
const hash = (value) => normalize('digest', value);
const text = (value) => `${value}`;
const given = (value) => value;
// Parameters by their conversion; a name that ends in `?` may be missing.
const RSA_GENERATE = { modulusLength: long, publicExponent: (value) => { if (!(value instanceof Uint8Array)) throw new TypeError('publicExponent must be a Uint8Array'); return new Uint8Array(value); }, hash };
const AES_KEY = { length: short };
const HMAC_KEY = { hash, 'length?': long };
const GCM = { iv: bytes, 'additionalData?': bytes, 'tagLength?': octet };
const CBC = { iv: bytes };
const CTR = { counter: bytes, length: octet };
const CURVE = { namedCurve: text };
const table = (names, parameters) => Object.fromEntries(names.map((name) => [name, parameters]));
const RSA_SIGN = ['RSASSA-PKCS1-v1_5', 'RSA-PSS'];
const RSA_ALL = [...RSA_SIGN, 'RSA-OAEP'];
const AES_ALL = ['AES-CTR', 'AES-CBC', 'AES-GCM', 'AES-KW'];
const ciphers = { 'RSA-OAEP': { 'label?': bytes }, 'AES-CTR': CTR, 'AES-CBC': CBC, 'AES-GCM': GCM };
const generate = { ...table(RSA_ALL, RSA_GENERATE), ...table(['ECDSA', 'ECDH'], CURVE), ...table(AES_ALL, AES_KEY), HMAC: HMAC_KEY, Ed25519: {}, X25519: {} };
const signs = { 'RSASSA-PKCS1-v1_5': {}, 'RSA-PSS': { saltLength: long }, ECDSA: { hash }, HMAC: {}, Ed25519: {} };
const derives = { ECDH: { public: given }, X25519: { public: given }, HKDF: { hash, salt: bytes, info: bytes }, PBKDF2: { hash, salt: bytes, iterations: long } };
const KNOWN = {
  digest: table(Object.keys(DIGEST_BYTES), {}), generateKey: generate, encrypt: ciphers, decrypt: ciphers, sign: signs, verify: signs, deriveBits: derives,
  importKey: { ...table(RSA_ALL, { hash }), ...table(['ECDSA', 'ECDH'], CURVE), ...table(AES_ALL, {}), HMAC: HMAC_KEY, HKDF: {}, PBKDF2: {}, Ed25519: {}, X25519: {} },
  wrapKey: { 'AES-KW': {} }, unwrapKey: { 'AES-KW': {} },
  'get key length': { ...table(AES_ALL, AES_KEY), HMAC: HMAC_KEY, HKDF: {}, PBKDF2: {} },
};
const missing = (message) => Object.assign(new TypeError(message), { code: 'ERR_MISSING_OPTION' });
const normalize = (operation, value) => {
  // What is no object is a name.
  const asked = (typeof value === 'object' && value !== null) || typeof value === 'function' ? value : { name: `${value}` };
  if (asked.name === undefined) throw missing('Algorithm: name is required');
  const wanted = `${asked.name}`.toUpperCase();
  const name = Object.keys(KNOWN[operation]).find((one) => one.toUpperCase() === wanted);
  if (name === undefined) throw fail('Unrecognized algorithm name', 'NotSupportedError');
  const normalized = { name };
  for (const [parameter, convert] of Object.entries(KNOWN[operation][name])) {
    const key = parameter.replace('?', '');
    const part = asked[key];
    if (part === undefined) {
      if (key === parameter) throw missing(`${name}: ${key} is required`);
    } else normalized[key] = convert(part, key);
  }
  return normalized;
};

const secretUsages = { HMAC: ['sign', 'verify'], 'AES-KW': ['wrapKey', 'unwrapKey'], HKDF: ['deriveKey', 'deriveBits'], PBKDF2: ['deriveKey', 'deriveBits'] };
for (const name of ['AES-CTR', 'AES-CBC', 'AES-GCM']) secretUsages[name] = ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey'];
// What the public and the private key of a pair may be used for.
const pairUsages = { 'RSA-OAEP': [['encrypt', 'wrapKey'], ['decrypt', 'unwrapKey']], ECDH: [[], ['deriveKey', 'deriveBits']], X25519: [[], ['deriveKey', 'deriveBits']] };
for (const name of [...RSA_SIGN, 'ECDSA', 'Ed25519']) pairUsages[name] = [['verify'], ['sign']];
const usagesOf = (name, type) => secretUsages[name] ?? pairUsages[name][type === 'public' ? 0 : 1];
const isPair = (name) => pairUsages[name] !== undefined;

// The bits of a key of the algorithm; null where there is no such length.
const keyLength = (algorithm) => {
  if (algorithm.name === 'HMAC') {
    if (algorithm.length === 0) throw new TypeError('HMAC: length cannot be zero');
    return algorithm.length ?? BLOCK_BYTES[algorithm.hash.name] * 8;
  }
  if (!AES_ALL.includes(algorithm.name)) return null;
  if (![128, 192, 256].includes(algorithm.length)) throw fail('AES key length must be 128, 192, or 256 bits', 'OperationError');
  return algorithm.length;
};
const generateSecret = (algorithm) => {
  if (algorithm.name === 'HMAC' && algorithm.length === 0) throw fail('Zero-length key is not supported', 'OperationError');
  const length = keyLength(algorithm);
  if (length % 8 !== 0) throw unsupported('a key whose length is no whole number of bytes');
  return { secret: entropy(length / 8), algorithm: { name: algorithm.name, ...(algorithm.hash && { hash: { name: algorithm.hash.name } }), length } };
};
const generatePair = (algorithm) => {
  const { generateRsa, generateEc, generateOkp, CURVES } = keys();
  if (algorithm.hash !== undefined) {
    if (algorithm.modulusLength > RSA_BITS_MAX) throw unsupported(`a modulus of more than ${RSA_BITS_MAX} bits`);
    const exponent = algorithm.publicExponent.reduce((sum, byte) => sum * 256 + byte, 0);
    if (algorithm.modulusLength < 256 || algorithm.modulusLength % 8 !== 0 || exponent < 3 || exponent % 2 === 0) throw wrong();
    return { material: needed(generateRsa(algorithm.modulusLength, algorithm.publicExponent)), algorithm: { name: algorithm.name, modulusLength: algorithm.modulusLength, publicExponent: algorithm.publicExponent, hash: { name: algorithm.hash.name } } };
  }
  if (algorithm.namedCurve !== undefined) {
    if (CURVES[algorithm.namedCurve] === undefined || algorithm.namedCurve === 'secp256k1') throw fail('Unrecognized namedCurve', 'NotSupportedError');
    return { material: generateEc(algorithm.namedCurve), algorithm: { name: algorithm.name, namedCurve: algorithm.namedCurve } };
  }
  return { material: generateOkp(algorithm.name), algorithm: { name: algorithm.name } };
};

const gcm = (algorithm, secret, data, seal) => {
  const tag = algorithm.tagLength ?? 128;
  if (!GCM_TAG_BITS.includes(tag)) throw fail(`${tag} is not a valid AES-GCM tag length`, 'OperationError');
  if (!seal && data.byteLength < tag / 8) throw fail('The provided data is too small.', 'OperationError');
  return aesGcm(seal, tag / 8, secret, algorithm.iv, algorithm.additionalData ?? NO_BYTES, data);
};
// One block that counts `length` bits at its end: a counter that comes around goes on from zero, which the widths of RustCrypto's do for themselves.
const ctr = (algorithm, secret, data) => {
  const { counter, length } = algorithm;
  if (counter.byteLength !== BLOCK) throw fail('algorithm.counter must contain exactly 16 bytes', 'OperationError');
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
const labelText = (label) => {
  try {
    return label === undefined ? '' : new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(label);
  } catch {
    throw unsupported('a label that is no UTF-8');
  }
};
const oaep = (algorithm, key, data, seal) => {
  if (key.type !== (seal ? 'public' : 'private')) throw fail('The key has another type', 'InvalidAccessError');
  const { rsa } = keys();
  return (seal ? rsa.rsaEncrypt : rsa.rsaDecrypt)(key.material.numbers, key.algorithm.hash.name, labelText(algorithm.label), data);
};
const cipher = (algorithm, key, data, seal) => {
  switch (algorithm.name) {
    case 'RSA-OAEP': return needed(oaep(algorithm, key, data, seal));
    case 'AES-GCM': return needed(gcm(algorithm, key.secret, data, seal));
    case 'AES-CTR': return needed(ctr(algorithm, key.secret, data));
    case 'AES-CBC':
      if (algorithm.iv.byteLength !== BLOCK) throw fail('algorithm.iv must contain exactly 16 bytes', 'OperationError');
      return needed(aes('cbc', seal, key.secret, algorithm.iv, data));
    default: return needed(data.byteLength % 8 === 0 ? aes('kw', seal, key.secret, NO_BYTES, data) : undefined);
  }
};
const PKCS1 = -1;
const sign = (algorithm, key, data) => {
  if (algorithm.name === 'HMAC') return hmac(key.algorithm.hash.name, key.secret, data);
  if (key.type !== 'private') throw fail('The key has another type', 'InvalidAccessError');
  const { rsa, curves } = keys();
  if (algorithm.name === 'ECDSA') return needed(curves.ecSign(key.material.curve, key.material.secret, digest(algorithm.hash.name, data)));
  if (algorithm.name === 'Ed25519') return needed(curves.ed25519Sign(key.material.secret, data));
  const name = key.algorithm.hash.name;
  return needed(rsa.rsaSign(key.material.numbers, name, algorithm.saltLength ?? PKCS1, digest(name, data)));
};
const verify = (algorithm, key, signature, data) => {
  if (algorithm.name === 'HMAC') return hmacVerify(key.algorithm.hash.name, key.secret, signature, data);
  if (key.type !== 'public') throw fail('The key has another type', 'InvalidAccessError');
  const { rsa, curves } = keys();
  if (algorithm.name === 'ECDSA') return curves.ecVerify(key.material.curve, key.material.point, digest(algorithm.hash.name, data), signature);
  if (algorithm.name === 'Ed25519') return curves.ed25519Verify(key.material.point, data, signature);
  const name = key.algorithm.hash.name;
  return rsa.rsaVerify(key.material.numbers, name, algorithm.saltLength ?? PKCS1, digest(name, data), signature);
};
const agree = (algorithm, key, other, length) => {
  const { curves } = keys();
  const shared = needed(algorithm.name === 'X25519' ? curves.x25519Agree(key.material.secret, other.material.point) : curves.ecAgree(key.material.curve, key.material.secret, other.material.point));
  if (length === null || length === undefined) return shared;
  if (length > shared.byteLength * 8) throw fail('The length is too large', 'OperationError');
  const made = new Uint8Array(shared.slice(0, Math.ceil(length / 8)));
  if (length % 8 !== 0) made[made.length - 1] &= 0xff << (8 - (length % 8));
  return made.buffer;
};
const derive = (algorithm, secret, length) => {
  if (length === null || length === undefined || length % 8 !== 0) throw fail('length must be a multiple of 8', 'OperationError');
  if (algorithm.name === 'HKDF') return length === 0 ? NO_BYTES.slice(0) : needed(hkdf(algorithm.hash.name, secret, algorithm.salt, algorithm.info, length / 8));
  const rounds = algorithm.iterations;
  if (rounds === 0) throw fail('iterations cannot be zero', 'OperationError');
  if (rounds * Math.max(1, Math.ceil(length / 8 / DIGEST_BYTES[algorithm.hash.name])) > PBKDF2_ROUNDS_MAX) throw unsupported(`PBKDF2 of more than ${PBKDF2_ROUNDS_MAX} rounds in all`);
  return pbkdf2(algorithm.hash.name, secret, algorithm.salt, rounds, length / 8);
};

module.exports = { KNOWN, normalize, bytes, fail, unsupported, wrong, usagesOf, isPair, pairUsages, keyLength, generateSecret, generatePair, cipher, sign, verify, agree, derive, AES_ALL, RSA_ALL };
