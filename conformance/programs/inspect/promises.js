console.log(new Promise(() => {}), Promise.resolve(4), Promise.resolve({ a: { b: { c: {} } } }));
const r = Promise.reject(3); r.catch(() => {}); console.log(r, [r]);
console.log(Promise.resolve('text'), Promise.resolve(), (async () => {})());
class P extends Promise {} console.log(P.resolve(1));
const p = Promise.resolve(1); p.extra = 2; console.log(p);
