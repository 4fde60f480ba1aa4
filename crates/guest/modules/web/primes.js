// Primes: drawn, and tested by the engine.
const { Buffer } = require('node/buffer');
const { codes } = require('web/errors');
const { validateBoolean, validateFunction, validateInt32, validateObject } = require('web/validators');
const { isPrime } = natives.part('rsa');
const { entropy } = natives;

const BITS_MAX = 8192;
const ROUNDS = 20;
const bigOf = (bytes) => BigInt(`0x0${Buffer.from(bytes).toString('hex')}`);
const bytesOf = (big, size) => {
  const hex = big.toString(16);
  return Buffer.from(hex.padStart(size === undefined ? hex.length + (hex.length % 2) : size * 2, '0'), 'hex');
};
const given = (value, name, message = undefined) => {
  if (typeof value === 'bigint') {
    if (value < 0n) throw new codes.ERR_OUT_OF_RANGE(name, '>= 0', value);
    return value;
  }
  if (!ArrayBuffer.isView(value) && !(value instanceof ArrayBuffer)) throw new codes.ERR_INVALID_ARG_TYPE(name, message ?? ['ArrayBuffer', 'TypedArray', 'Buffer', 'DataView', 'bigint'], value);
  return bigOf(ArrayBuffer.isView(value) ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value);
};
const prime = (value, rounds = ROUNDS) => {
  const bytes = bytesOf(value);
  const answer = isPrime(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length), rounds);
  if (answer === undefined || answer === null) throw new codes.ERR_OUT_OF_RANGE('candidate', `a number of at most ${BITS_MAX} bits`, value);
  return answer;
};
const invalid = (name) => Object.assign(new RangeError(`invalid options.${name}`), { code: 'ERR_OUT_OF_RANGE' });
// Products of small primes below 2 ** 53. What such a prime divides, or half of what lies below it, is no safe prime: that is told before the engine
// looks, which takes a millisecond.
const SMALL = [[3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41], [43, 47, 53, 59, 61, 67, 71, 73], [79, 83, 89, 97, 101, 103, 107, 109]];
const PRODUCTS = SMALL.map((primes) => primes.reduce((product, it) => product * BigInt(it), 1n));
const mayBeSafe = (value) => SMALL.every((primes, at) => {
  const rest = Number(value % PRODUCTS[at]);
  return primes.every((it) => rest % it > 1);
});
const LEAST_BITS_SIFTED = 16;
const search = (size, options = {}) => {
  validateInt32(size, 'size', 1);
  validateObject(options, 'options');
  const { safe = false, bigint = false, add, rem } = options;
  validateBoolean(safe, 'options.safe');
  validateBoolean(bigint, 'options.bigint');
  const step = add === undefined ? undefined : given(add, 'options.add');
  const rest = rem === undefined ? undefined : given(rem, 'options.rem');
  if (step !== undefined) {
    if (step === 0n || step.toString(2).length > size) throw invalid('add');
    if (rest !== undefined && rest >= step) throw invalid('rem');
  }
  if (size > BITS_MAX) throw new codes.ERR_OUT_OF_RANGE('size', `<= ${BITS_MAX} in a session`, size);
  return () => {
    const width = Math.ceil(size / 8);
    const [low, high] = [1n << BigInt(size - 1), 1n << BigInt(size)];
    for (;;) {
      let drawn = bigOf(entropy(width)) % high | low;
      // The two highest bits are set, as OpenSSL's are, so that products are as long as they may be.
      if (step === undefined && size > 2) drawn |= low >> 1n;
      if (step === undefined) {
        if (size > 1) drawn |= safe && size > 2 ? 3n : 1n;
      } else {
        drawn -= drawn % step;
        drawn += rest ?? (safe ? 3n : 1n);
        if (drawn >= high || drawn < low) continue;
      }
      if (safe && size >= LEAST_BITS_SIFTED && !mayBeSafe(drawn)) continue;
      if (size === 1 || !prime(drawn) || (safe && !prime((drawn - 1n) / 2n))) {
        if (size === 1) throw Object.assign(new Error('error:0180007B:bignum routines::bits too small'), { code: 'ERR_OSSL_BN_BITS_TOO_SMALL' });
        continue;
      }
      if (bigint) return drawn;
      const bytes = bytesOf(drawn, width);
      return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    }
  };
};
const checked = (candidate, options = {}) => {
  const value = given(candidate, 'candidate');
  validateObject(options, 'options');
  const { checks = 0 } = options;
  validateInt32(checks, 'options.checks', 0);
  return () => prime(value, checks === 0 ? ROUNDS : checks);
};
const later = (callback, work) => queueMicrotask(() => {
  let made;
  try {
    made = work();
  } catch (error) {
    return void callback(error);
  }
  callback(null, made);
});
const both = (prepare) => [(first, options, callback) => {
  const done = typeof options === 'function' ? options : callback;
  const work = prepare(first, typeof options === 'function' ? undefined : options);
  validateFunction(done, 'callback');
  later(done, work);
}, (...args) => prepare(...args)()];
const [generatePrime, generatePrimeSync] = both(search);
const [checkPrime, checkPrimeSync] = both(checked);
module.exports = { generatePrime, generatePrimeSync, checkPrime, checkPrimeSync };
