// Pairs of keys, made by their options; and of RSA what Node does with a private key first: privateEncrypt, publicDecrypt, and Certificate.
const { Buffer } = require('node/buffer');
const { absent, notThere } = require('web/absent');
const forms = require('web/asymmetric');
const der = require('web/der');
const { codes } = require('web/errors');
const { osslError, providerError } = require('web/ossl');
const { bytesOf, constants, curveNamed, formAsked, hashOf, inForm, keyGiven, objectOf, paddingOf, pem, privateGiven, rawRsa, webName } = require('web/keys');
const { validateFunction, validateInt32, validateInteger, validateObject, validateString, validateUint32 } = require('web/validators');
const { digest } = natives;

const { plain, rsa } = forms;
const rsaError = (number, reason) => osslError(number, 'rsa routines', reason, 'RSA_');
const coded = (Kind, code, message) => Object.assign(new Kind(message), { code });
// What a pair of PSS is for, under Node's names and its older ones.
const pssDetails = (options) => {
  const { hash, mgf1Hash, hashAlgorithm = hash, mgf1HashAlgorithm = mgf1Hash, saltLength } = options;
  for (const [name, value] of [['hashAlgorithm', hashAlgorithm], ['mgf1HashAlgorithm', mgf1HashAlgorithm], ['hash', hash], ['mgf1Hash', mgf1Hash]]) if (value !== undefined) validateString(value, `options.${name}`);
  for (const [old, now] of [['hash', 'hashAlgorithm'], ['mgf1Hash', 'mgf1HashAlgorithm']]) if (options[old] !== undefined && options[now] !== undefined && options[old] !== options[now]) throw new codes.ERR_INVALID_ARG_VALUE(`options.${old}`, options[old]);
  if (saltLength !== undefined) validateInteger(saltLength, 'options.saltLength', 0, 2 ** 31 - 1);
  if (hashAlgorithm === undefined && mgf1HashAlgorithm === undefined && saltLength === undefined) return undefined;
  const named = hashOf(hashAlgorithm ?? 'sha1');
  const mask = mgf1HashAlgorithm ?? named;
  try {
    hashOf(mask);
  } catch {
    throw coded(TypeError, 'ERR_CRYPTO_INVALID_DIGEST', `Invalid MGF1 digest: ${mask}`);
  }
  if (hashOf(mask) !== named) throw notThere('RSA-PSS of two hashes', 'leave mgf1HashAlgorithm out');
  return { hashAlgorithm: named, mgf1HashAlgorithm: named, saltLength: saltLength ?? digest(webName(named), new ArrayBuffer(0)).byteLength };
};
const bigEndian = (number) => new Uint8Array([number >>> 24, number >>> 16, number >>> 8, number]);
// By kind: what checks the options, and then makes the pair.
const ofRsa = (type) => (options) => {
  validateObject(options, 'options');
  const { modulusLength, publicExponent = 65537 } = options;
  validateUint32(modulusLength, 'options.modulusLength');
  validateUint32(publicExponent, 'options.publicExponent');
  const more = type === 'rsa' ? {} : { variant: type, details: pssDetails(options) };
  return () => {
    if (publicExponent < 3 || publicExponent % 2 === 0) throw rsaError('020000B2', 'pub exponent out of range');
    const material = forms.generateRsa(modulusLength, bigEndian(publicExponent));
    if (material === undefined) throw rsaError('02000078', 'key size too small');
    return { ...material, ...more };
  };
};
const ofCurve = (options) => {
  validateObject(options, 'options');
  const { namedCurve, paramEncoding } = options;
  validateString(namedCurve, 'options.namedCurve');
  // A key names its curve in either case.
  if (paramEncoding !== undefined && paramEncoding !== null && paramEncoding !== 'named' && paramEncoding !== 'explicit') throw new codes.ERR_INVALID_ARG_VALUE('options.paramEncoding', paramEncoding);
  const curve = curveNamed(namedCurve);
  return () => forms.generateEc(curve);
};
const ofDh = (options) => {
  validateObject(options, 'options');
  const { group, prime, primeLength, generator } = options;
  const { primeOf, primeOfBits, GROUPS } = require('web/agreement');
  const together = (one, other) => { if (options[one] !== undefined && options[one] !== null && options[other] !== undefined && options[other] !== null) throw new codes.ERR_INCOMPATIBLE_OPTION_PAIR(one, other); };
  let found;
  if (group !== undefined && group !== null) {
    for (const other of ['prime', 'primeLength', 'generator']) together('group', other);
    validateString(group, 'options.group');
    if (!Object.hasOwn(GROUPS, group.toLowerCase())) throw coded(Error, 'ERR_CRYPTO_UNKNOWN_DH_GROUP', 'Unknown DH group');
    found = () => primeOf(group.toLowerCase());
  } else if (prime !== undefined && prime !== null) {
    together('prime', 'primeLength');
    const given = plain(bytesOf(prime, undefined, 'options.prime'));
    found = () => given;
  } else if (primeLength !== undefined && primeLength !== null) {
    validateInt32(primeLength, 'options.primeLength', 0);
    found = () => primeOfBits(primeLength);
  } else throw coded(TypeError, 'ERR_MISSING_OPTION', 'At least one of the group, prime, or primeLength options is required');
  if (generator !== undefined && generator !== null) validateInt32(generator, 'options.generator', 0);
  return () => forms.generateDh(plain(found()), plain(der.stripped(bigEndian(generator || 2))));
};
const ofDsa = (options) => {
  validateObject(options, 'options');
  validateUint32(options.modulusLength, 'options.modulusLength');
  if (options.divisorLength !== undefined && options.divisorLength !== null) validateInt32(options.divisorLength, 'options.divisorLength', 0);
  return absent('a pair of keys of DSA', 'use Ed25519 or ECDSA');
};
const ofGoldilocks = () => absent('the curve of 448 bits', 'use ed25519 or x25519');
const MAKERS = {
  rsa: ofRsa('rsa'), 'rsa-pss': ofRsa('rsa-pss'), ec: ofCurve, dh: ofDh, dsa: ofDsa, ed25519: () => () => forms.generateOkp('Ed25519'), x25519: () => () => forms.generateOkp('X25519'),
  ed448: ofGoldilocks, x448: ofGoldilocks,
};
const prepared = (type, options) => {
  validateString(type, 'type');
  if (options !== undefined) validateObject(options, 'options');
  const form = (name, isPublic) => {
    const asked = options?.[name];
    if (asked === undefined || asked === null) return undefined;
    if (typeof asked !== 'object') throw new codes.ERR_INVALID_ARG_VALUE(`options.${name}`, asked);
    return formAsked(asked, type, isPublic, `options.${name}`);
  };
  const [publicForm, privateForm] = [form('publicKeyEncoding', true), form('privateKeyEncoding', false)];
  if (!Object.hasOwn(MAKERS, type)) throw new codes.ERR_INVALID_ARG_VALUE('type', type, 'must be a supported key type');
  const make = MAKERS[type](options);
  return () => {
    const material = make();
    const shaped = (kind, of, asked) => (asked === undefined ? objectOf(kind, of) : inForm(kind, of, asked));
    return { publicKey: shaped('public', forms.publicOf(material), publicForm), privateKey: shaped('private', material, privateForm) };
  };
};
const generateKeyPairSync = (type, options) => prepared(type, options)();
const generateKeyPair = (type, options, callback) => {
  const [given, done] = typeof options === 'function' ? [undefined, options] : [options, callback];
  validateFunction(done, 'callback');
  const make = prepared(type, given);
  queueMicrotask(() => {
    let pair;
    try {
      pair = make();
    } catch (error) {
      return void done(error);
    }
    done(null, pair.publicKey, pair.privateKey);
  });
};
Object.defineProperty(generateKeyPair, Symbol.for('nodejs.util.promisify.custom'), { value: async (type, options) => generateKeyPairSync(type, options) });

// PKCS #1 of the first type (RFC 8017, section 9.2): what is signed as it is, and read back by anybody.
const failed = () => rsaError('0200008A', 'invalid padding');
const rsaOnly = (material) => {
  if (material.kind !== 'rsa' || material.variant === 'rsa-pss') throw providerError('1C8000B2', 'operation not supported for this keytype');
  return material.numbers;
};
const paddingGiven = (key) => {
  const padding = paddingOf(key) ?? constants.RSA_PKCS1_PADDING;
  if (padding !== constants.RSA_PKCS1_PADDING && padding !== constants.RSA_NO_PADDING) throw providerError('1C8000A5', 'illegal or unsupported padding mode');
  return padding;
};
const privateEncrypt = (key, data) => {
  const numbers = rsaOnly(privateGiven(key));
  const bytes = plain(bytesOf(data, key?.encoding, 'buffer'));
  if (paddingGiven(key) === constants.RSA_NO_PADDING) return Buffer.from(plain(rawRsa(numbers, numbers[2], bytes)));
  const made = rsa.rsaSign(numbers, '', -1, bytes);
  if (made === undefined || made === null) throw rsaError('0200006E', 'data too large for key size');
  return Buffer.from(made);
};
const PAD_BYTES_MIN = 8;
const publicDecrypt = (key, data) => {
  const numbers = rsaOnly(keyGiven(key, 'public')[1]);
  const bytes = plain(bytesOf(data, key?.encoding, 'buffer'));
  const padding = paddingGiven(key);
  if (bytes.byteLength > numbers[0].byteLength) throw failed();
  const opened = Buffer.from(plain(rawRsa(numbers, numbers[1], bytes)));
  if (padding === constants.RSA_NO_PADDING) return opened;
  const end = opened.indexOf(0, 2);
  if (opened[0] !== 0 || opened[1] !== 1 || end < 2 + PAD_BYTES_MIN || opened.subarray(2, end).some((byte) => byte !== 0xff)) throw failed();
  return opened.subarray(end + 1);
};

// Signed public keys with a challenge, as Netscape once defined them.
const IA5_STRING = 0x16;
const SIGNED_BY = { '1.2.840.113549.1.1.4': 'md5', '1.2.840.113549.1.1.5': 'sha1', '1.2.840.113549.1.1.11': 'sha256', '1.2.840.113549.1.1.12': 'sha384', '1.2.840.113549.1.1.13': 'sha512' };
const parts = (spkac, encoding) => {
  const text = bytesOf(spkac, encoding, 'spkac').toString('latin1').trim();
  const [signed, algorithm, signature] = der.expect(der.read(Buffer.from(text, 'base64')), der.SEQUENCE);
  const [spki, challenge] = der.expect(signed, der.SEQUENCE);
  return { signed: signed.raw, spki: spki.raw, challenge: der.expect(challenge, IA5_STRING), hash: SIGNED_BY[der.oidText(der.expect(algorithm, der.SEQUENCE)[0])], signature: der.expect(signature, der.BITS).subarray(1) };
};
const orNothing = (work) => (spkac, encoding) => {
  bytesOf(spkac, encoding, 'spkac');
  try {
    return work(parts(spkac, encoding));
  } catch {
    return '';
  }
};
const methods = {
  verifySpkac: (spkac, encoding) => orNothing(({ signed, spki, hash, signature }) => {
    const { numbers } = forms.fromSpki(spki);
    return rsa.rsaVerify(numbers, webName(hash), -1, digest(webName(hash), plain(signed)), plain(signature));
  })(spkac, encoding) === true,
  exportPublicKey: orNothing(({ spki }) => {
    forms.fromSpki(spki);
    return Buffer.from(pem('PUBLIC KEY', spki));
  }),
  exportChallenge: orNothing(({ challenge }) => Buffer.from(challenge)),
};
function Certificate() { if (!(this instanceof Certificate)) return new Certificate(); }
Object.assign(Certificate, methods);
Object.assign(Certificate.prototype, methods);

module.exports = { generateKeyPair, generateKeyPairSync, privateEncrypt, publicDecrypt, Certificate };
