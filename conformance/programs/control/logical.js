const log = []; const v = (x) => { log.push(x); return x; };
v(0) || v('a') && v(null) || v('b'); v(null) ?? v(0) ?? v(1); v(1) && (v(0) || v(2)); console.log(log.map(String).join());
const o = { a: null, get g() { log.push('get'); return undefined; }, set g(x) { log.push(`set ${x}`); }, b: { c: () => 'called' } }; log.length = 0;
o.a ??= v('new'); o.a ??= v('skipped'); o.g ||= 'val'; o.b.c &&= 'replaced'; console.log(o.a, o.b.c, log.join());
console.log(o?.b?.d?.e.f.g, o.nope?.(), o.nope?.[log.push('not evaluated')], delete o?.b, o?.['a']);
const f = null; console.log(f?.(), f?.a.b.c(), [1]?.[0], ''?.length, 0?.toFixed(1)); let u; u?.x.y(); console.log((() => { try { return u?.x.y + u.z; } catch (e) { return e.name; } })());
console.log(true ? 1 : false ? 2 : 3, (null || undefined) ?? 'z', (0 && 1) ?? 2, !(1 && 0) || 5, 1 < 2 < 3, 3 > 2 > 1, 'b' > 'a' && 'B' < 'a');
