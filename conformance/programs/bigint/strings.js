console.log((255n).toString(16), (-255n).toString(2), (10n ** 25n).toString(36), String(123456789012345678901234567890n), `${-5n}`, (0n).toString(), (2n ** 64n).toLocaleString('en-US').length > 5);
console.log(BigInt('0xff'), BigInt('  42  '), BigInt(''), BigInt('0b101'), BigInt('0o17'), BigInt('-9'), BigInt(true), BigInt(2 ** 60), BigInt(Number.MAX_SAFE_INTEGER) * 10n, Number(2n ** 64n), Number(2n ** 1024n), parseInt('9n'), Number(-(2n ** 53n) - 1n));
const fact = (n) => (n < 2n ? 1n : n * fact(n - 1n));
console.log(fact(50n), String(fact(200n)).length, fact(30n) / fact(28n));
const gcd = (a, b) => (b ? gcd(b, a % b) : a);
console.log(gcd(2n ** 60n * 3n, 6n ** 40n), [1n, 2n, 3n].reduce((a, b) => a + b), Object(5n) + 1n, Object(5n) == 5n, typeof Object(5n), BigInt(Object(7n)));
console.log(1_000n, 0xffn, 0b11n, 0o7n, new Map([[1n, 'big'], [1, 'num']]).get(1n), new Set([1n, 1n, 1]).size, [1n].includes(1n), [1n].indexOf(1), Object.is(0n, -0n), 5n.constructor.name);
const modpow = (b, e, m) => { let r = 1n; for (b %= m; e; e >>= 1n) { if (e & 1n) r = (r * b) % m; b = (b * b) % m; } return r; };
console.log(modpow(3n, 10n ** 20n, 10n ** 18n + 9n), BigInt.asIntN(32, 0xdeadbeefn));
