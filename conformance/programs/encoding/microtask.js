const out = []; queueMicrotask(() => out.push(1)); out.push(0); await null; out.push(2); console.log(out.join());
try { queueMicrotask(5); } catch (e) { console.log(e.name); } try { queueMicrotask(); } catch (e) { console.log(e.name); } console.log(queueMicrotask(() => {}), queueMicrotask.length, queueMicrotask.name, typeof setTimeout, typeof setImmediate, typeof clearInterval, globalThis === globalThis.globalThis);
await new Promise((r) => queueMicrotask(r)); let args; queueMicrotask((...a) => { args = a.length; }); await null; console.log(args);
console.log(typeof performance.now(), performance.now() <= performance.now(), performance.now() >= 0, typeof performance.timeOrigin, typeof crypto.randomUUID(), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()), crypto.getRandomValues(new Uint8Array(8)).length);
try { crypto.getRandomValues(new Uint8Array(65537)); } catch (e) { console.log(e.name); }
