const values = [0, -0, 1, NaN, '', '0', 'a', null, undefined, true, false, [], [0], [1, 2], {}, 1n, 0n, () => 1];
console.log(values.map((v) => (v ? 'T' : 'F')).join(''));
const loose = [];
for (const a of values) { let row = ''; for (const b of values) row += a == b ? '1' : '.'; loose.push(row); }
console.log(loose.join('\n'));
const less = [];
for (const a of values) { let row = ''; for (const b of values) row += a < b ? '<' : a >= b ? '>' : '?'; less.push(row); }
console.log(less.join('\n'));
console.log(values.map((v) => { try { return String(+v); } catch (e) { return e.name; } }).join());
console.log(values.map((v) => String(v)).join('|'), values.map((v) => typeof v).join());
console.log([null ?? 'd', 0 ?? 'd', '' || 'd', NaN && 'd', undefined?.x, null?.[0], (void 0)?.()].map(String).join());
let a = null, b = 0, c = 1; a ??= 'set'; b ||= 'set'; c &&= 'set'; console.log(a, b, c);
