const negative = (a) => new Proxy(a, { get: (t, k, r) => (typeof k === 'string' && /^-\d+$/.test(k) ? t[t.length + +k] : Reflect.get(t, k, r)) });
const a = negative([1, 2, 3]);
console.log(a[-1], a[0], a.length, Array.isArray(a), a.map((x) => x * 2));
const observed = [];
const watch = (o, path = '') => new Proxy(o, { get(t, k, r) { const v = Reflect.get(t, k, r); return typeof v === 'object' && v ? watch(v, `${path}${String(k)}.`) : v; }, set(t, k, v, r) { observed.push(`${path}${String(k)}=${v}`); return Reflect.set(t, k, v, r); } });
const state = watch({ user: { name: 'x', tags: [] } });
state.user.name = 'y'; state.user.tags.push('t'); state.extra = 1;
console.log(observed);
const { proxy, revoke } = Proxy.revocable({ a: 1 }, {});
console.log(proxy.a); revoke();
try { proxy.a; } catch (e) { console.log(e.name); }
console.log(typeof proxy);
const calls = new Proxy({}, { get: (t, name) => (...args) => `${name}(${args})` });
console.log(calls.anything(1, 2));
const withDefault = new Proxy({}, { get: (t, k) => k in t ? t[k] : 0, has: () => true });
withDefault.n++; withDefault.n++;
console.log(withDefault.n, 'zzz' in withDefault, JSON.stringify(withDefault), Object.keys(withDefault));
class Base { constructor() { return new Proxy(this, { get: (t, k, r) => k in t ? Reflect.get(t, k, r) : `missing ${String(k)}` }); } }
class Derived extends Base { x = 1; }
console.log(new Derived().x, new Derived().nothing);
console.log(JSON.stringify(new Proxy([1, { a: 2 }], {})), [].concat(new Proxy([1, 2], {})), Object.prototype.toString.call(new Proxy([], {})));
