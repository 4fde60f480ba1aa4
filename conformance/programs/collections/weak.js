const k = {}, wm = new WeakMap([[k, 1]]), ws = new WeakSet([k]);
console.log(wm.get(k), wm.has({}), wm.set(k, 2) === wm, wm.get(k), wm.delete(k), wm.has(k), ws.has(k), ws.delete(k), ws.has(k));
for (const f of [() => wm.set(1, 1), () => ws.add('s'), () => new WeakMap([[1, 2]]), () => wm.set(Symbol.for('r'), 1), () => new WeakRef(1), () => new WeakMap().size]) try { console.log(f()); } catch (e) { console.log(e.name); }
const s = Symbol('unregistered'); console.log(wm.set(s, 'sym').get(s), wm.get('nothing'), wm.has(5));
const r = new WeakRef(k); console.log(r.deref() === k, Object.prototype.toString.call(r), String(wm), Object.prototype.toString.call(ws), typeof FinalizationRegistry);
const reg = new FinalizationRegistry(() => {}); console.log(reg.register(k, 'held', k), reg.unregister(k), reg.unregister(k), Object.prototype.toString.call(reg));
const priv = new WeakMap(); class P { constructor(v) { priv.set(this, { v }); } get v() { return priv.get(this).v; } } console.log(new P(7).v, Object.keys(new P(1)));
