console.log(2n ** 100n, -7n / 2n, -7n % 2n, 7n % -2n, 5n - 10n, 10n ** 30n / 7n, (1n << 70n) - 1n, -1n >> 5n, 5n & 3n, -5n | 2n, 5n ^ -1n, ~7n, -(-3n), 0n === -0n);
console.log(BigInt.asIntN(8, 255n), BigInt.asUintN(8, -1n), BigInt.asIntN(64, 2n ** 63n), BigInt.asUintN(64, -1n), BigInt.asIntN(0, 5n), BigInt.asUintN(200, -1n) === 2n ** 200n - 1n);
console.log(1n < 2, 2n == 2, 2n === 2, 1n + BigInt(2), 10n > 9.5, 2n > '1', 0n == '', 1n == true, [3n, 1, 2n, 10].sort((a, b) => (a < b ? -1 : 1)), typeof 1n, !0n, 1n && 'yes');
for (const f of [() => 1n + 1, () => 1n / 0n, () => 2n ** -1n, () => BigInt(1.5), () => BigInt('1.5'), () => BigInt(undefined), () => +1n, () => 1n >>> 0n, () => Math.max(1n), () => BigInt(NaN), () => new BigInt(1), () => JSON.stringify(1n), () => BigInt('0x'), () => BigInt(Symbol())]) try { console.log(f()); } catch (e) { console.log(e.name); }
let n = 1n; n++; n **= 3n; n <<= 2n; n -= 1n; console.log(n, n--, --n);
