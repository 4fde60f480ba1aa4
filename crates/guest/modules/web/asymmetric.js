// Keys of RSA, elliptic curves, Ed25519, X25519 and Diffie and Hellman in the forms that they travel in. A key is `{ kind, … }`: of RSA `numbers` ([n, e], private ones
// with d, p, q, dp, dq, qi), of a curve `curve` and `point` (SEC 1, not compressed), of a group `prime`, `generator` and `point`, of the others `point`; private ones have `secret`, too.
const der = require('web/der');
const rsa = natives.part('rsa');
const curves = natives.part('curves');

const { SEQUENCE, INTEGER, BITS, OCTETS, NULL, Malformed, write, integer, oid } = der;
const RSA_OIDS = { '1.2.840.113549.1.1.1': 'rsa', '1.2.840.113549.1.1.10': 'rsa-pss', '1.2.840.113549.1.1.7': 'rsa-oaep' };
const EC_OID = '1.2.840.10045.2.1';
const DH_OID = '1.2.840.113549.1.3.1';
const OKP_OIDS = { '1.3.101.112': 'Ed25519', '1.3.101.110': 'X25519' };
const CURVES = {
  'P-256': { oid: '1.2.840.10045.3.1.7', bytes: 32, node: 'prime256v1' }, 'P-384': { oid: '1.3.132.0.34', bytes: 48, node: 'secp384r1' },
  'P-521': { oid: '1.3.132.0.35', bytes: 66, node: 'secp521r1' }, secp256k1: { oid: '1.3.132.0.10', bytes: 32, node: 'secp256k1' },
};
const plain = (bytes) => (bytes instanceof ArrayBuffer ? bytes : bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
const curveOf = (value) => {
  const text = der.oidText(value);
  const found = Object.keys(CURVES).find((name) => CURVES[name].oid === text);
  if (found === undefined) throw new Malformed('the curve is not known');
  return found;
};
const invert = (table, value) => Object.keys(table).find((key) => table[key] === value);

// What the natives answer to what is no key.
const needed = (made, why) => {
  if (made === undefined || made === null) throw new Malformed(why);
  return made;
};
const ecPublic = (curve, point) => ({ kind: 'ec', curve, point: needed(curves.ecPoint(curve, plain(point), false), 'the point is not on the curve') });
const ecPrivate = (curve, secret) => {
  const padded = plain(der.padded(secret, CURVES[curve].bytes));
  return { kind: 'ec', curve, secret: padded, point: needed(curves.ecPublic(curve, padded), 'the number is no private key') };
};
const okpPublic = (kind, point) => {
  if (point.byteLength !== 32) throw new Malformed('the key must have 32 bytes');
  return { kind, point: plain(point) };
};
const okpPrivate = (kind, secret) => {
  if (secret.byteLength !== 32) throw new Malformed('the key must have 32 bytes');
  const bytes = plain(secret);
  return { kind, secret: bytes, point: needed((kind === 'Ed25519' ? curves.ed25519Public : curves.x25519Public)(bytes), 'the key is none') };
};
const rsaPublic = (n, e) => ({ kind: 'rsa', numbers: [n, e].map((it) => plain(der.stripped(it))) });
const rsaPrivate = (numbers) => ({ kind: 'rsa', secret: true, numbers: needed(rsa.rsaComplete(numbers.slice(0, 5).map((it) => plain(der.stripped(it)))), 'the numbers are no RSA key') });

const algorithmOf = (value) => {
  const [name, parameters] = der.expect(value, SEQUENCE);
  return [der.oidText(name), parameters];
};
const contentOfBits = (value) => {
  const bits = der.expect(value, BITS);
  if (bits[0] !== 0) throw new Malformed('bits are left over');
  return bits.subarray(1);
};
const fromPkcs1Public = (bytes) => {
  const [n, e] = der.expect(der.read(bytes), SEQUENCE);
  return rsaPublic(der.expect(n, INTEGER), der.expect(e, INTEGER));
};
const fromPkcs1Private = (bytes) => {
  const [, ...numbers] = der.expect(der.read(bytes), SEQUENCE);
  return rsaPrivate(numbers.map((it) => der.expect(it, INTEGER)));
};
const fromSec1 = (bytes, given) => {
  const [, secret, ...rest] = der.expect(der.read(bytes), SEQUENCE);
  const named = rest.find((it) => it.tag === 0xa0);
  const curve = named === undefined ? given : curveOf(named.content[0]);
  if (curve === undefined) throw new Malformed('the key names no curve');
  return ecPrivate(curve, der.expect(secret, OCTETS));
};
const fromSpki = (bytes) => {
  const [algorithm, key] = der.expect(der.read(bytes), SEQUENCE);
  const [name, parameters] = algorithmOf(algorithm);
  const content = contentOfBits(key);
  if (RSA_OIDS[name] !== undefined) return { ...fromPkcs1Public(content), variant: RSA_OIDS[name] };
  if (name === EC_OID) return ecPublic(curveOf(parameters), content);
  if (name === DH_OID) return { ...dhGroup(parameters), point: plain(der.stripped(der.expect(der.read(content), INTEGER))) };
  if (OKP_OIDS[name] !== undefined) return okpPublic(OKP_OIDS[name], content);
  throw new Malformed('the algorithm of the key is not known');
};
const fromPkcs8 = (bytes) => {
  const [, algorithm, key] = der.expect(der.read(bytes), SEQUENCE);
  const [name, parameters] = algorithmOf(algorithm);
  const content = der.expect(key, OCTETS);
  if (RSA_OIDS[name] !== undefined) return { ...fromPkcs1Private(content), variant: RSA_OIDS[name] };
  if (name === EC_OID) return fromSec1(content, curveOf(parameters));
  if (name === DH_OID) return dhPrivate(dhGroup(parameters), der.expect(der.read(content), INTEGER));
  if (OKP_OIDS[name] !== undefined) return okpPrivate(OKP_OIDS[name], der.expect(der.read(content), OCTETS));
  throw new Malformed('the algorithm of the key is not known');
};
const dhGroup = (parameters) => {
  const [prime, generator] = der.expect(parameters, SEQUENCE).map((it) => plain(der.stripped(der.expect(it, INTEGER))));
  return { kind: 'dh', prime, generator };
};
const dhPrivate = (group, given) => {
  const secret = plain(der.stripped(given));
  return { ...group, secret, point: needed(rsa.modPow(group.generator, secret, group.prime), 'the numbers are no group') };
};
// Of so many bits the discrete logarithm is harder than that of the group itself.
const EXPONENT_BYTES_MAX = 64;
const generateDh = (prime, generator) => dhPrivate({ kind: 'dh', prime, generator }, natives.entropy(Math.min(prime.byteLength, EXPONENT_BYTES_MAX)));
const algorithm = (key) => {
  if (key.kind === 'dh') return write(SEQUENCE, oid(DH_OID), write(SEQUENCE, integer(key.prime), integer(key.generator)));
  if (key.kind === 'rsa') return write(SEQUENCE, oid(invert(RSA_OIDS, key.variant ?? 'rsa')), key.variant === 'rsa-pss' ? [] : write(NULL));
  if (key.kind === 'ec') return write(SEQUENCE, oid(EC_OID), oid(CURVES[key.curve].oid));
  return write(SEQUENCE, oid(invert(OKP_OIDS, key.kind)));
};
const toPkcs1Public = (key) => write(SEQUENCE, integer(key.numbers[0]), integer(key.numbers[1]));
const toPkcs1Private = (key) => write(SEQUENCE, integer([0]), ...key.numbers.map(integer));
const toSec1 = (key, withCurve = true) => write(SEQUENCE, integer([1]), write(OCTETS, key.secret), withCurve ? write(0xa0, oid(CURVES[key.curve].oid)) : [], write(0xa1, write(BITS, [0], key.point)));
const toSpki = (key) => write(SEQUENCE, algorithm(key), write(BITS, [0], key.kind === 'rsa' ? toPkcs1Public(key) : key.kind === 'dh' ? integer(key.point) : key.point));
const toPkcs8 = (key) => {
  const content = key.kind === 'rsa' ? toPkcs1Private(key) : key.kind === 'ec' ? toSec1(key, false) : key.kind === 'dh' ? integer(key.secret) : write(OCTETS, key.secret);
  return write(SEQUENCE, integer([0]), algorithm(key), write(OCTETS, content));
};

const encode = (bytes) => require('node/buffer').Buffer.from(plain(bytes)).toString('base64url');
const decode = (text) => {
  if (typeof text !== 'string' || !/^[\w-]*$/.test(text)) throw new Malformed('a number of the key is no base64url');
  return new Uint8Array(require('node/buffer').Buffer.from(text, 'base64url'));
};
const RSA_FIELDS = ['n', 'e', 'd', 'p', 'q', 'dp', 'dq', 'qi'];
const toJwk = (key) => {
  if (key.kind === 'rsa') return { kty: 'RSA', ...Object.fromEntries(key.numbers.map((it, at) => [RSA_FIELDS[at], encode(der.stripped(it))])) };
  const secret = key.secret === undefined ? {} : { d: encode(key.secret) };
  if (key.kind === 'ec') {
    const { bytes } = CURVES[key.curve];
    return { kty: 'EC', x: encode(key.point.slice(1, 1 + bytes)), y: encode(key.point.slice(1 + bytes)), crv: key.curve, ...secret };
  }
  return { crv: key.kind, ...secret, x: encode(key.point), kty: 'OKP' };
};
const same = (left, right) => left.byteLength === right.byteLength && new Uint8Array(left).every((byte, at) => byte === new Uint8Array(right)[at]);
const fromJwk = (jwk) => {
  if (jwk.kty === 'RSA') {
    if (jwk.n === undefined || jwk.e === undefined) throw new Malformed('n and e are missing');
    if (jwk.d === undefined) return rsaPublic(decode(jwk.n), decode(jwk.e));
    if (jwk.p === undefined || jwk.q === undefined) throw new Malformed('p and q are missing');
    return rsaPrivate(RSA_FIELDS.slice(0, 5).map((name) => decode(jwk[name])));
  }
  if (jwk.kty === 'EC') {
    if (CURVES[jwk.crv] === undefined) throw new Malformed('the curve is not known');
    const { bytes } = CURVES[jwk.crv];
    const [x, y] = [decode(jwk.x), decode(jwk.y)];
    if (x.length !== bytes || y.length !== bytes) throw new Malformed('x and y have another length');
    const known = ecPublic(jwk.crv, der.joined([[4], x, y]));
    if (jwk.d === undefined) return known;
    if (decode(jwk.d).length !== bytes) throw new Malformed('d has another length');
    const key = ecPrivate(jwk.crv, decode(jwk.d));
    if (!same(key.point, known.point)) throw new Malformed('d and the point do not belong together');
    return key;
  }
  if (jwk.kty === 'OKP' && (jwk.crv === 'Ed25519' || jwk.crv === 'X25519')) {
    const known = okpPublic(jwk.crv, decode(jwk.x));
    if (jwk.d === undefined) return known;
    const key = okpPrivate(jwk.crv, decode(jwk.d));
    if (!same(key.point, known.point)) throw new Malformed('d and x do not belong together');
    return key;
  }
  throw new Malformed('the kind of the key is not known');
};
const publicOf = (key) => (key.kind === 'rsa' ? { kind: 'rsa', variant: key.variant, details: key.details, numbers: key.numbers.slice(0, 2) } : key.kind === 'dh' ? { kind: 'dh', prime: key.prime, generator: key.generator, point: key.point } : { kind: key.kind, curve: key.curve, point: key.point });

const generateRsa = (bits, exponent) => {
  const numbers = rsa.rsaGenerate(bits, plain(exponent));
  return numbers === undefined || numbers === null ? undefined : { kind: 'rsa', secret: true, numbers };
};
const generateEc = (curve) => ecPrivate(curve, curves.ecGenerate(curve));
const generateOkp = (kind) => okpPrivate(kind, natives.entropy(32));

// A signature of ECDSA as X9.62 writes it, and as the web does.
const signatureToDer = (raw) => {
  const half = raw.byteLength / 2;
  return write(SEQUENCE, integer(raw.slice(0, half)), integer(raw.slice(half)));
};
const signatureFromDer = (bytes, curve) => {
  const [r, s] = der.expect(der.read(bytes), SEQUENCE);
  return der.joined([r, s].map((it) => der.padded(der.expect(it, INTEGER), CURVES[curve].bytes)));
};
module.exports = {
  CURVES, Malformed, plain, same, rsa, curves, fromSpki, toSpki, fromPkcs8, toPkcs8, fromSec1, toSec1, fromPkcs1Public, fromPkcs1Private, toPkcs1Public, toPkcs1Private, fromJwk, toJwk, publicOf,
  ecPublic, ecPrivate, okpPublic, okpPrivate, generateRsa, generateEc, generateOkp, generateDh, EXPONENT_BYTES_MAX, signatureToDer, signatureFromDer,
};
