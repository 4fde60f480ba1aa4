// SubtleCrypto over the engine's natives (RustCrypto), with the checks in the standard's order. What is not here rejects with NotSupportedError.
const { KNOWN, normalize, bytes, fail, unsupported, usagesOf, isPair, pairUsages, keyLength, generateSecret, generatePair, cipher, sign, verify, agree, derive, AES_ALL, RSA_ALL } = require('web/algorithms');
const keys = () => require('web/asymmetric');

const USAGES = ['encrypt', 'decrypt', 'sign', 'verify', 'deriveKey', 'deriveBits', 'wrapKey', 'unwrapKey'];
const FORMATS = ['raw', 'pkcs8', 'spki', 'jwk'];
const MADE = Symbol('made here');
// What a key holds, which no script may see: its algorithm and type again, and `secret` or `material`.
const contents = new WeakMap();

class CryptoKey {
  constructor(...args) {
    const [made, fields] = args;
    if (made !== MADE) throw new TypeError('Illegal constructor');
    contents.set(this, fields);
  }
  get type() { return contentOf(this).type; }
  get extractable() { return contentOf(this).extractable; }
  get algorithm() { return contentOf(this).algorithm; }
  get usages() { return contentOf(this).usages; }
}
const named = (made, name) => Object.defineProperty(made.prototype, Symbol.toStringTag, { value: name, configurable: true });
named(CryptoKey, 'CryptoKey');
for (const name of ['type', 'extractable', 'algorithm', 'usages']) Object.defineProperty(CryptoKey.prototype, name, { enumerable: true });
const contentOf = (key) => {
  const content = contents.get(key);
  if (content === undefined) throw Object.assign(new TypeError('Value of "this" must be of type CryptoKey'), { code: 'ERR_INVALID_THIS' });
  return content;
};
const keyOf = (value, what = 'key') => {
  const content = contents.get(value);
  if (content === undefined) throw Object.assign(new TypeError(`${what} must be a CryptoKey`), { code: 'ERR_INVALID_ARG_TYPE' });
  return content;
};
const usagesGiven = (usages) => {
  const asked = [...usages].map((usage) => `${usage}`);
  for (const usage of asked) if (!USAGES.includes(usage)) throw new TypeError(`${usage} is not a key usage`);
  return asked;
};
const ordered = (usages) => USAGES.filter((usage) => usages.includes(usage));
const kindOfKey = (name) => (name === 'HMAC' ? 'an HMAC' : AES_ALL.includes(name) ? 'an AES' : `${RSA_ALL.includes(name) ? 'an' : 'a'} ${name}`);
const onlyAllowed = (asked, allowed, name) => {
  if (asked.some((usage) => !allowed.includes(usage))) throw fail(`Unsupported key usage for ${kindOfKey(name)} key`, 'SyntaxError');
};
const notEmpty = (usages, why = 'creating a key') => {
  if (usages.length === 0) throw fail(`Usages cannot be empty when ${why}.`, 'SyntaxError');
};
const makeKey = (type, algorithm, extractable, usages, more) => new CryptoKey(MADE, { type, algorithm, extractable: !!extractable, usages: ordered(usages), ...more });
const NOT_FOR = { deriveKey: 'baseKey does not have deriveKey usage', deriveBits: 'baseKey does not have deriveBits usage', encrypt: 'The requested operation is not valid for the provided key', decrypt: 'The requested operation is not valid for the provided key' };
const usable = (key, algorithm, usage) => {
  if (key.algorithm.name !== algorithm.name) throw fail('Key algorithm mismatch', 'InvalidAccessError');
  if (!key.usages.includes(usage)) throw fail(NOT_FOR[usage] ?? `Unable to use this key to ${usage}`, 'InvalidAccessError');
  return key;
};
const parsed = (work) => {
  try {
    return work();
  } catch (error) {
    if (error instanceof DOMException || error instanceof TypeError) throw error;
    throw fail(`Invalid keyData: ${error.message}`, 'DataError');
  }
};
const data = (message) => fail(message, 'DataError');

const HASHES = { 'SHA-1': '1', 'SHA-256': '256', 'SHA-384': '384', 'SHA-512': '512' };
const jwkAlgorithm = ({ name, hash, length }) => {
  switch (name) {
    case 'HMAC': return `HS${HASHES[hash.name]}`;
    case 'RSASSA-PKCS1-v1_5': return `RS${HASHES[hash.name]}`;
    case 'RSA-PSS': return `PS${HASHES[hash.name]}`;
    case 'RSA-OAEP': return hash.name === 'SHA-1' ? 'RSA-OAEP' : `RSA-OAEP-${HASHES[hash.name]}`;
    default: return AES_ALL.includes(name) ? `A${length}${name.slice(4)}` : undefined;
  }
};
const base64url = {
  encode: (buffer) => require('node/buffer').Buffer.from(buffer).toString('base64url'),
  decode: (value) => {
    if (typeof value !== 'string' || !/^[\w-]*$/.test(value)) throw data('Invalid keyData');
    const made = require('node/buffer').Buffer.from(value, 'base64url');
    return made.buffer.slice(made.byteOffset, made.byteOffset + made.byteLength);
  },
};
const SIGNERS = ['HMAC', 'RSASSA-PKCS1-v1_5', 'RSA-PSS', 'ECDSA', 'Ed25519'];
// What a JWK says of its own use must allow what it is imported for.
const checkJwk = (jwk, algorithm, usages, extractable) => {
  if (usages.length > 0 && jwk.use !== undefined) {
    const wanted = SIGNERS.includes(algorithm.name) ? 'sig' : 'enc';
    if (jwk.use !== wanted) throw data(`Invalid JWK "use" Parameter`);
  }
  if (jwk.key_ops !== undefined) {
    if (!Array.isArray(jwk.key_ops) || new Set(jwk.key_ops).size !== jwk.key_ops.length || usages.some((usage) => !jwk.key_ops.includes(usage))) throw data('Key operations and usage mismatch');
  }
  if (jwk.ext === false && extractable) throw data('JWK "ext" Parameter and extractable mismatch');
};
const importSecret = (format, keyData, algorithm, extractable, usages) => {
  const { name } = algorithm;
  const derives = name === 'HKDF' || name === 'PBKDF2';
  if (format !== 'raw' && (format !== 'jwk' || derives)) throw unsupported(`the format ${format} of a ${name} key`);
  onlyAllowed(usages, usagesOf(name), name);
  if (derives && extractable) throw fail(`${name} keys are not extractable`, 'SyntaxError');
  let secret = keyData;
  if (format === 'jwk') {
    if (keyData.kty === undefined) throw data('Invalid keyData');
    if (keyData.kty !== 'oct') throw data('Invalid JWK "kty" Parameter');
    secret = base64url.decode(keyData.k);
  }
  const bits = secret.byteLength * 8;
  let made = { name };
  if (name === 'HMAC') {
    if (bits === 0 || algorithm.length === 0) throw data('Zero-length key is not supported');
    if (algorithm.length !== undefined && (algorithm.length > bits || algorithm.length <= bits - 8)) throw data('Invalid key length');
    made = { name, hash: { name: algorithm.hash.name }, length: algorithm.length ?? bits };
  } else if (AES_ALL.includes(name)) {
    if (![128, 192, 256].includes(bits)) throw data('Invalid key length');
    made = { name, length: bits };
  }
  if (format === 'jwk') {
    if (keyData.alg !== undefined && keyData.alg !== jwkAlgorithm(made)) throw data('JWK "alg" does not match the requested algorithm');
    checkJwk(keyData, algorithm, usages, extractable);
  }
  notEmpty(usages, 'importing a secret key');
  return makeKey('secret', made, extractable, usages, { secret });
};
const JWK_KTY = { ECDSA: 'EC', ECDH: 'EC', Ed25519: 'OKP', X25519: 'OKP' };
const materialOf = (format, keyData, algorithm, type) => {
  const { CURVES, fromSpki, fromPkcs8, fromJwk, ecPublic, okpPublic } = keys();
  const { name, namedCurve } = algorithm;
  const rsa = RSA_ALL.includes(name);
  if (format === 'raw') return parsed(() => (namedCurve === undefined ? okpPublic(name, keyData) : ecPublic(namedCurve, keyData)));
  const material = parsed(() => (format === 'spki' ? fromSpki(keyData) : format === 'pkcs8' ? fromPkcs8(keyData) : fromJwk(keyData)));
  if (material.kind !== (rsa ? 'rsa' : namedCurve !== undefined ? 'ec' : name)) throw data('Invalid key type');
  if (namedCurve !== undefined && material.curve !== namedCurve) throw data('Named curve mismatch');
  void CURVES;
  void type;
  return material;
};
const importPair = (format, keyData, algorithm, extractable, usages) => {
  const { name, namedCurve } = algorithm;
  const rsa = RSA_ALL.includes(name);
  if (format === 'raw' && rsa) throw unsupported(`the format raw of a ${name} key`);
  const type = format === 'pkcs8' || (format === 'jwk' && keyData.d !== undefined) ? 'private' : 'public';
  onlyAllowed(usages, usagesOf(name, type), name);
  if (namedCurve !== undefined && (keys().CURVES[namedCurve] === undefined || namedCurve === 'secp256k1')) throw fail('Unrecognized namedCurve', 'NotSupportedError');
  let made = { name, ...(namedCurve && { namedCurve }) };
  if (format === 'jwk') {
    if (keyData.kty === undefined) throw data('Invalid keyData');
    if (keyData.kty !== (rsa ? 'RSA' : JWK_KTY[name])) throw data('Invalid JWK "kty" Parameter');
    checkJwk(keyData, algorithm, usages, extractable);
    if (rsa && keyData.alg !== undefined && keyData.alg !== jwkAlgorithm({ name, hash: algorithm.hash })) throw data('JWK "alg" does not match the requested algorithm');
    if (namedCurve !== undefined && keyData.crv !== namedCurve) throw data('JWK "crv" does not match the requested algorithm');
    if (name === 'ECDSA' && keyData.alg !== undefined && keyData.alg !== { 'P-256': 'ES256', 'P-384': 'ES384', 'P-521': 'ES512' }[namedCurve]) throw data('JWK "alg" does not match the requested algorithm');
    if (name === 'Ed25519' && keyData.alg !== undefined && !['EdDSA', 'Ed25519'].includes(keyData.alg)) throw data('JWK "alg" does not match the requested algorithm');
  }
  const material = materialOf(format, keyData, algorithm, type);
  if (rsa) {
    const [n, e] = material.numbers.map((it) => new Uint8Array(it));
    made = { name, modulusLength: n.length * 8 - Math.clz32(n[0]) + 24, publicExponent: e, hash: { name: algorithm.hash.name } };
  }
  if (type === 'private') notEmpty(usages, 'importing a private key');
  return makeKey(type, made, extractable, usages, { material });
};
const inFormat = (format, method, at) => {
  if (!FORMATS.includes(format)) throw Object.assign(new TypeError(`Failed to execute '${method}' on 'SubtleCrypto': ${at} argument value '${format}' is not a valid enum value of type KeyFormat.`), { code: 'ERR_INVALID_ARG_VALUE' });
};
const importAny = (format, keyData, algorithm, extractable, usages) => {
  inFormat(format, 'importKey', '1st');
  return (isPair(algorithm.name) ? importPair : importSecret)(format, keyData, algorithm, extractable, usages);
};
const exportAny = (format, key) => {
  const { name } = key.algorithm;
  inFormat(format, 'exportKey', '1st');
  if (KNOWN.importKey[name] === undefined || ['HKDF', 'PBKDF2'].includes(name)) throw unsupported(`the export of a ${name} key`);
  if (!key.extractable) throw fail('key is not extractable', 'InvalidAccessError');
  const about = { key_ops: [...key.usages], ext: key.extractable };
  if (key.secret !== undefined) {
    if (format === 'raw') return key.secret.slice(0);
    if (format !== 'jwk') throw unsupported(`the format ${format} of a ${name} key`);
    return { ...about, kty: 'oct', k: base64url.encode(key.secret), alg: jwkAlgorithm(key.algorithm) };
  }
  const { toSpki, toPkcs8, toJwk, plain } = keys();
  if (format === 'jwk') {
    const alg = name === 'Ed25519' ? name : jwkAlgorithm(key.algorithm);
    return { ...about, ...toJwk(key.material), ...(alg === undefined ? undefined : { alg }) };
  }
  if ((format === 'pkcs8') !== (key.type === 'private')) throw fail('The key has another type', 'InvalidAccessError');
  if (format === 'raw') {
    if (RSA_ALL.includes(name)) throw unsupported(`the format raw of a ${name} key`);
    return key.material.point.slice(0);
  }
  return plain(format === 'spki' ? toSpki(key.material) : toPkcs8(key.material));
};
const either = (operation, fallback, algorithm) => {
  try {
    return normalize(operation, algorithm);
  } catch (error) {
    if (error?.name !== 'NotSupportedError') throw error;
    return normalize(fallback, algorithm);
  }
};
const bitsOf = (algorithm, key, usage, length) => {
  usable(key, algorithm, usage);
  if (algorithm.name !== 'ECDH' && algorithm.name !== 'X25519') return derive(algorithm, key.secret, length);
  const other = keyOf(algorithm.public, 'algorithm.public');
  if (key.type !== 'private') throw fail('The key has another type', 'InvalidAccessError');
  if (other.type !== 'public') throw fail('algorithm.public must be a public key', 'InvalidAccessError');
  if (other.algorithm.name !== algorithm.name) throw fail(['ECDH', 'X25519'].includes(other.algorithm.name) ? 'The keys are of other kinds' : 'Keys must be ECDH, X25519, or X448 keys', 'InvalidAccessError');
  if (other.algorithm.namedCurve !== key.algorithm.namedCurve) throw fail('Named curve mismatch', 'InvalidAccessError');
  return agree(algorithm, key, other, length);
};
const needs = (given, count, name) => {
  if (given < count) throw Object.assign(new TypeError(`Failed to execute '${name}' on 'SubtleCrypto': ${count} arguments required, but only ${given} present.`), { code: 'ERR_MISSING_ARGS' });
};

class SubtleCrypto {
  constructor(...args) {
    if (args[0] !== MADE) throw Object.assign(new TypeError('Illegal constructor'), { code: 'ERR_ILLEGAL_CONSTRUCTOR' });
  }
  async digest(algorithm, value) {
    needs(arguments.length, 2, 'digest');
    const given = bytes(value);
    return natives.digest(normalize('digest', algorithm).name, given);
  }
  async generateKey(algorithm, extractable, keyUsages) {
    needs(arguments.length, 3, 'generateKey');
    const usages = usagesGiven(keyUsages);
    const wanted = normalize('generateKey', algorithm);
    const { name } = wanted;
    if (!isPair(name)) {
      onlyAllowed(usages, usagesOf(name), name);
      const made = generateSecret(wanted);
      notEmpty(usages);
      return makeKey('secret', made.algorithm, extractable, usages, { secret: made.secret });
    }
    const [forPublic, forPrivate] = pairUsages[name];
    onlyAllowed(usages, [...forPublic, ...forPrivate], name);
    const { CURVES, publicOf } = keys();
    if (wanted.namedCurve !== undefined && (CURVES[wanted.namedCurve] === undefined || wanted.namedCurve === 'secp256k1')) throw fail('Unrecognized namedCurve', 'NotSupportedError');
    const privateUsages = usages.filter((usage) => forPrivate.includes(usage));
    // Before the work of making them.
    if (wanted.hash === undefined) notEmpty(privateUsages);
    const made = generatePair(wanted);
    notEmpty(privateUsages);
    return {
      publicKey: makeKey('public', made.algorithm, true, usages.filter((usage) => forPublic.includes(usage)), { material: publicOf(made.material) }),
      privateKey: makeKey('private', made.algorithm, extractable, privateUsages, { material: made.material }),
    };
  }
  async importKey(format, keyData, algorithm, extractable, keyUsages) {
    needs(arguments.length, 5, 'importKey');
    inFormat(format, 'importKey', '1st');
    if (format === 'jwk') {
      // What is nothing is a key that says nothing.
      const jwk = keyData ?? {};
      if (typeof jwk !== 'object' || jwk instanceof ArrayBuffer || ArrayBuffer.isView(jwk)) throw Object.assign(new TypeError('keyData must be a JsonWebKey'), { code: 'ERR_INVALID_ARG_TYPE' });
      const usages = usagesGiven(keyUsages);
      return importAny(format, jwk, normalize('importKey', algorithm), extractable, usages);
    }
    const given = bytes(keyData, 'keyData');
    const usages = usagesGiven(keyUsages);
    return importAny(format, given, normalize('importKey', algorithm), extractable, usages);
  }
  async exportKey(format, key) {
    needs(arguments.length, 2, 'exportKey');
    return exportAny(format, keyOf(key));
  }
  async sign(algorithm, key, value) {
    needs(arguments.length, 3, 'sign');
    const [given, wanted] = [bytes(value), normalize('sign', algorithm)];
    return sign(wanted, usable(keyOf(key), wanted, 'sign'), given);
  }
  async verify(algorithm, key, signature, value) {
    needs(arguments.length, 4, 'verify');
    const [given, told, wanted] = [bytes(value), bytes(signature, 'signature'), normalize('verify', algorithm)];
    return verify(wanted, usable(keyOf(key), wanted, 'verify'), told, given);
  }
  async encrypt(algorithm, key, value) {
    needs(arguments.length, 3, 'encrypt');
    const [given, wanted] = [bytes(value), normalize('encrypt', algorithm)];
    return cipher(wanted, usable(keyOf(key), wanted, 'encrypt'), given, true);
  }
  async decrypt(algorithm, key, value) {
    needs(arguments.length, 3, 'decrypt');
    const [given, wanted] = [bytes(value), normalize('decrypt', algorithm)];
    return cipher(wanted, usable(keyOf(key), wanted, 'decrypt'), given, false);
  }
  async deriveBits(algorithm, key, length = null) {
    needs(arguments.length, 2, 'deriveBits');
    return bitsOf(normalize('deriveBits', algorithm), keyOf(key), 'deriveBits', length);
  }
  async deriveKey(algorithm, key, derivedKey, extractable, keyUsages) {
    needs(arguments.length, 5, 'deriveKey');
    const usages = usagesGiven(keyUsages);
    const wanted = normalize('deriveBits', algorithm);
    const target = normalize('importKey', derivedKey);
    const length = keyLength(normalize('get key length', derivedKey));
    const secret = bitsOf(wanted, keyOf(key), 'deriveKey', length);
    return importAny('raw', secret, target, extractable, usages);
  }
  async wrapKey(format, key, wrappingKey, algorithm) {
    needs(arguments.length, 4, 'wrapKey');
    const wanted = either('wrapKey', 'encrypt', algorithm);
    const wrapping = usable(keyOf(wrappingKey, 'wrappingKey'), wanted, 'wrapKey');
    const exported = exportAny(format, keyOf(key));
    return cipher(wanted, wrapping, format === 'jwk' ? new TextEncoder().encode(JSON.stringify(exported)).buffer : exported, true);
  }
  async unwrapKey(format, wrapped, unwrappingKey, algorithm, keyAlgorithm, extractable, keyUsages) {
    needs(arguments.length, 7, 'unwrapKey');
    const usages = usagesGiven(keyUsages);
    const given = bytes(wrapped, 'wrappedKey');
    const wanted = either('unwrapKey', 'decrypt', algorithm);
    const target = normalize('importKey', keyAlgorithm);
    const opened = cipher(wanted, usable(keyOf(unwrappingKey, 'unwrappingKey'), wanted, 'unwrapKey'), given, false);
    return importAny(format, format === 'jwk' ? parsed(() => JSON.parse(new TextDecoder().decode(opened))) : opened, target, extractable, usages);
  }
}
named(SubtleCrypto, 'SubtleCrypto');
for (const name of Object.getOwnPropertyNames(SubtleCrypto.prototype)) if (name !== 'constructor') Object.defineProperty(SubtleCrypto.prototype, name, { enumerable: true });

const Crypto = function Crypto() { throw Object.assign(new TypeError('Illegal constructor'), { code: 'ERR_ILLEGAL_CONSTRUCTOR' }); };
Object.defineProperty(Crypto, 'prototype', { value: Object.getPrototypeOf(natives.webcrypto), writable: false });
Object.defineProperty(Crypto.prototype, 'constructor', { value: Crypto, writable: true, configurable: true });
module.exports = { subtle: new SubtleCrypto(MADE), Crypto, SubtleCrypto, CryptoKey };
// For Node's own forms of keys.
Object.defineProperty(module.exports, 'inner', { value: { contents, makeKey, importAny, normalize }, enumerable: false });
