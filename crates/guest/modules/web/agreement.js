// Node's older objects of key agreement: ECDH, and Diffie and Hellman over a prime.
const { Buffer } = require('node/buffer');
const { codes } = require('web/errors');
const { validateString } = require('web/validators');
const { absent } = require('web/absent');
const { CURVES, EXPONENT_BYTES_MAX, plain, same, rsa, curves, generateEc } = require('web/asymmetric');
const { generatePrimeSync, checkPrimeSync } = require('web/primes');
const { bytesOf, curveNamed } = require('web/keys');
const { osslError } = require('web/ossl');
const { entropy } = natives;

const coded = (Kind, code, message) => Object.assign(new Kind(message), { code });
const shown = (bytes, encoding) => (encoding === undefined || encoding === 'buffer' ? Buffer.from(bytes) : Buffer.from(bytes).toString(encoding));
const pointOf = (curve, point, format = 'uncompressed') => {
  if (!['compressed', 'uncompressed', 'hybrid'].includes(format)) throw new codes.ERR_CRYPTO_ECDH_INVALID_FORMAT(format);
  const made = curves.ecPoint(curve, point, format === 'compressed');
  if (made === undefined || made === null) throw coded(Error, 'ERR_CRYPTO_ECDH_INVALID_PUBLIC_KEY', 'Public key is not valid for specified curve');
  if (format === 'hybrid') {
    const bytes = new Uint8Array(made);
    bytes[0] = 6 + (bytes[bytes.length - 1] & 1);
  }
  return made;
};
class ECDH {
  #curve; #secret; #point;
  constructor(curve) {
    validateString(curve, 'curve');
    this.#curve = curveNamed(curve);
  }
  static convertKey(key, curve, inputEncoding, outputEncoding, format) {
    validateString(curve, 'curve');
    const [named, point] = [curveNamed(curve), plain(bytesOf(key, inputEncoding))];
    if (curves.ecPoint(named, point, false) === undefined) throw coded(Error, 'ERR_CRYPTO_OPERATION_FAILED', 'Failed to convert Buffer to EC_POINT');
    return shown(pointOf(named, point, format), outputEncoding);
  }
  generateKeys(encoding, format) {
    const made = generateEc(this.#curve);
    [this.#secret, this.#point] = [made.secret, made.point];
    return this.getPublicKey(encoding, format);
  }
  computeSecret(other, inputEncoding, outputEncoding) {
    const point = pointOf(this.#curve, plain(bytesOf(other, inputEncoding, 'otherPublicKey')));
    const own = this.#secret === undefined ? undefined : curves.ecPublic(this.#curve, this.#secret);
    if (own === undefined || (this.#point !== undefined && !same(own, this.#point))) throw coded(Error, 'ERR_CRYPTO_ECDH_INVALID_KEY_PAIR', 'Invalid key pair');
    return shown(curves.ecAgree(this.#curve, this.#secret, point), outputEncoding);
  }
  getPublicKey(encoding, format) {
    if (this.#point === undefined) throw coded(Error, 'ERR_CRYPTO_ECDH_NO_PUBLIC_KEY', 'Failed to get ECDH public key');
    return shown(pointOf(this.#curve, this.#point, format), encoding);
  }
  getPrivateKey(encoding) {
    if (this.#secret === undefined) throw coded(Error, 'ERR_CRYPTO_ECDH_NO_PRIVATE_KEY', 'Failed to get ECDH private key');
    return shown(this.#secret, encoding);
  }
  setPrivateKey(key, encoding) {
    const secret = new Uint8Array(CURVES[this.#curve].bytes);
    const given = bytesOf(key, encoding);
    if (given.length <= secret.length) secret.set(given, secret.length - given.length);
    const point = given.length <= secret.length ? curves.ecPublic(this.#curve, secret.buffer) : undefined;
    if (point === undefined || point === null) throw coded(Error, 'ERR_CRYPTO_INVALID_KEYTYPE', 'Private key is not valid for specified curve.');
    [this.#secret, this.#point] = [secret.buffer, point];
    return this;
  }
  setPublicKey(key, encoding) {
    const point = curves.ecPoint(this.#curve, plain(bytesOf(key, encoding)), false);
    if (point === undefined || point === null) throw coded(Error, 'ERR_CRYPTO_OPERATION_FAILED', 'Failed to convert Buffer to EC_POINT');
    this.#point = point;
    return this;
  }
}

// The groups of RFC 2409 and RFC 3526: 2^n - 2^(n-64) - 1 + 2^64 * (floor(2^(n-130) * pi) + c).
const GROUPS = { modp1: [768, 149686], modp2: [1024, 129093], modp5: [1536, 741804], modp14: [2048, 124476], modp15: [3072, 1690314], modp16: [4096, 240904], modp17: [6144, 929484], modp18: [8192, 4743158] };
// floor(2^bits * pi), by Machin's formula.
const scaledPi = (bits) => {
  const guard = 64n;
  const one = 1n << (BigInt(bits) + guard);
  const arctan = (inverse) => {
    let term = one / inverse;
    let sum = term;
    for (let n = 3n, sign = -1n; term > 0n; n += 2n, sign = -sign) {
      term /= inverse * inverse;
      sum += sign * (term / n);
    }
    return sum;
  };
  return (4n * (4n * arctan(5n) - arctan(239n))) >> guard;
};
const bytesOfBig = (value) => {
  const hex = value.toString(16);
  return Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex');
};
const primeOf = (name) => {
  const [bits, c] = GROUPS[name];
  const n = BigInt(bits);
  return bytesOfBig((1n << n) - (1n << (n - 64n)) - 1n + (1n << 64n) * (scaledPi(bits - 130) + BigInt(c)));
};
// OpenSSL's own least.
const PRIME_BITS_MIN = 512;
// A safe prime of more bits takes minutes here, so a group of more is one that the standards have.
const DRAWN_BITS_MAX = 512;
const primeOfBits = (bits) => {
  if (bits < PRIME_BITS_MIN) throw dhError('0280007E', 'modulus too small');
  const named = Object.keys(GROUPS).find((name) => GROUPS[name][0] === bits);
  if (named !== undefined) return primeOf(named);
  if (bits <= DRAWN_BITS_MAX) return Buffer.from(generatePrimeSync(bits, { safe: true }));
  return absent(`a group of ${bits} bits`, `take 512 bits, or those of a group of RFC 2409 or 3526 (${Object.values(GROUPS).map(([size]) => size).join(', ')}), or give the prime`)();
};
// What OpenSSL's DH_check finds.
const [NOT_PRIME, NOT_SAFE, UNSUITABLE, TOO_SMALL] = [1, 2, 8, 0x80];
const faultsOf = (prime, generator) => {
  const big = (bytes) => BigInt(`0x0${Buffer.from(bytes).toString('hex')}`);
  const [p, g] = [big(prime), big(generator)];
  if (Object.values(GROUPS).some(([bits]) => bits === p.toString(2).length) && Object.keys(GROUPS).some((name) => primeOf(name).equals(prime))) return 0;
  let faults = g <= 1n || g >= p - 1n ? UNSUITABLE : 0;
  if (p.toString(2).length < PRIME_BITS_MIN) faults |= TOO_SMALL;
  if (!checkPrimeSync(p)) faults |= NOT_PRIME;
  else if (!checkPrimeSync((p - 1n) / 2n)) faults |= NOT_SAFE;
  return faults;
};
const dhError = (number, reason) => osslError(number, 'Diffie-Hellman routines', reason, 'DH_');
const GENERATOR_KINDS = ['number', 'string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'];
const generatorOf = (generator, encoding) => {
  // As Node has it: what is nothing is two.
  if (!generator) return Buffer.from([2]);
  let bytes;
  if (typeof generator === 'number') {
    if (!Number.isInteger(generator)) throw new codes.ERR_OUT_OF_RANGE('generator', 'an integer', generator);
    bytes = generator > 0 ? bytesOfBig(BigInt(generator)) : Buffer.alloc(1);
  } else if (typeof generator === 'string' || ArrayBuffer.isView(generator) || generator instanceof ArrayBuffer) bytes = bytesOf(generator, encoding);
  else throw new codes.ERR_INVALID_ARG_TYPE('generator', GENERATOR_KINDS, generator);
  if (bytes.every((byte, at) => byte === 0 || (byte === 1 && at === bytes.length - 1))) throw dhError('02800065', 'bad generator');
  return bytes;
};
class DiffieHellman {
  #prime; #generator; #secret; #public;
  constructor(prime, primeEncoding, generator, generatorEncoding) {
    if (typeof prime === 'number') {
      if (!Number.isInteger(prime)) throw new codes.ERR_OUT_OF_RANGE('sizeOrKey', 'an integer', prime);
      // The other argument is the generator, as Node has it.
      [prime, primeEncoding, generator, generatorEncoding] = [primeOfBits(prime), undefined, primeEncoding, generator];
    }
    if (typeof prime !== 'string' && !ArrayBuffer.isView(prime) && !(prime instanceof ArrayBuffer)) throw new codes.ERR_INVALID_ARG_TYPE('sizeOrKey', ['number', 'string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], prime);
    // What is no encoding is the generator, and what follows it is that one's.
    if (primeEncoding && (typeof primeEncoding !== 'string' || (!Buffer.isEncoding(primeEncoding) && primeEncoding !== 'buffer'))) [generatorEncoding, generator, primeEncoding] = [generator, primeEncoding, undefined];
    this.#prime = bytesOf(prime, primeEncoding);
    this.#generator = generatorOf(generator, generatorEncoding);
    let faults;
    Object.defineProperty(this, 'verifyError', { get: () => (faults ??= faultsOf(this.#prime, this.#generator)), enumerable: true, configurable: true });
  }
  #power(base, exponent) {
    const made = rsa.modPow(plain(base), plain(exponent), plain(this.#prime));
    if (made === undefined || made === null) throw dhError('02800065', 'bad generator');
    return Buffer.from(made);
  }
  generateKeys(encoding) {
    this.#secret ??= Buffer.from(entropy(Math.min(this.#prime.length, EXPONENT_BYTES_MAX)));
    this.#public = this.#power(this.#generator, this.#secret);
    return this.getPublicKey(encoding);
  }
  computeSecret(other, inputEncoding, outputEncoding) {
    if (this.#secret === undefined) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'No private key');
    const key = bytesOf(other, inputEncoding, 'otherPublicKey');
    if (key.every((byte, at) => byte === 0 || (byte === 1 && at === key.length - 1))) throw coded(RangeError, 'ERR_CRYPTO_INVALID_KEYLEN', 'Supplied key is too small');
    const shared = this.#power(key, this.#secret);
    return shown(Buffer.concat([Buffer.alloc(this.#prime.length - shared.length), shared]), outputEncoding);
  }
  getPrime(encoding) { return shown(this.#prime, encoding); }
  getGenerator(encoding) { return shown(this.#generator, encoding); }
  getPublicKey(encoding) {
    if (this.#public === undefined) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'No public key - did you forget to generate one?');
    return shown(this.#public, encoding);
  }
  getPrivateKey(encoding) {
    if (this.#secret === undefined) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'No private key - did you forget to generate one?');
    return shown(this.#secret, encoding);
  }
  setPublicKey(key, encoding) { this.#public = bytesOf(key, encoding); }
  setPrivateKey(key, encoding) { this.#secret = bytesOf(key, encoding); }
}
class DiffieHellmanGroup extends DiffieHellman {
  constructor(name) {
    if (!Object.hasOwn(GROUPS, name)) throw coded(Error, 'ERR_CRYPTO_UNKNOWN_DH_GROUP', 'Unknown DH group');
    super(primeOf(name), undefined, 2);
  }
}
for (const name of ['setPublicKey', 'setPrivateKey']) Object.defineProperty(DiffieHellmanGroup.prototype, name, { value: undefined });
const called = (Kind) => new Proxy(Kind, { apply: (target, self, args) => new target(...args) });
module.exports = { GROUPS, primeOf, primeOfBits, ECDH: called(ECDH), DiffieHellman: called(DiffieHellman), DiffieHellmanGroup: called(DiffieHellmanGroup) };
