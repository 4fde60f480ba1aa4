console.log(Object.prototype.toString.call(Promise.resolve()), Promise.length, Promise.name, Promise.resolve.length);
const p = Promise.resolve(1);
console.log(Promise.resolve(p) === p, p.then() !== p, p.catch() instanceof Promise);
let resolve, reject;
const d = new Promise((y, n) => { resolve = y; reject = n; });
resolve('once'); resolve('twice'); reject('never');
console.log(await d);
try { new Promise(); } catch (e) { console.log(e.name); }
try { Promise(() => {}); } catch (e) { console.log(e.name); }
class Mine extends Promise { static get [Symbol.species]() { return Promise; } }
const m = Mine.resolve(1);
console.log(m instanceof Mine, m.then(() => 0) instanceof Mine);
console.log(await Promise.resolve({ then: (f) => f('from thenable') }));
console.log(await { then(f) { setTimeout(f, 1, 'slow thenable'); } });
