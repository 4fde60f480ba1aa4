let target = { name: 'kept' };
const ref = new WeakRef(target);
console.log(ref.deref().name, ref.deref() === target);
await null;
console.log(ref.deref()?.name);
const cache = new Map();
const get = (k, make) => { const hit = cache.get(k)?.deref(); if (hit) return hit; const fresh = make(); cache.set(k, new WeakRef(fresh)); return fresh; };
const a = get('x', () => ({ n: 1 })); console.log(get('x', () => ({ n: 2 })) === a, WeakRef.length, WeakRef.prototype.constructor === WeakRef);
try { WeakRef({}); } catch (e) { console.log(e.name); }
try { new FinalizationRegistry(); } catch (e) { console.log(e.name); }
const fr = new FinalizationRegistry(() => {});
try { fr.register(1); } catch (e) { console.log(e.name); }
try { fr.register(target, target); } catch (e) { console.log(e.name); }
try { fr.unregister(1); } catch (e) { console.log(e.name); }
