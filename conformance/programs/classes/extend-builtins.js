class Stack extends Array {
  peek() { return this[this.length - 1]; }
  static get [Symbol.species]() { return Array; }
}
const s = Stack.from([1, 2, 3]);
console.log(s.peek(), s.length, s instanceof Stack, s.map((x) => x) instanceof Stack, Array.isArray(s));
class DefaultMap extends Map { constructor(d, it) { super(it); this.d = d; } get(k) { if (!this.has(k)) this.set(k, this.d()); return super.get(k); } }
const m = new DefaultMap(() => [], [['a', [0]]]);
m.get('a').push(1); m.get('b').push(2);
console.log(JSON.stringify([...m]), m.size);
class HttpError extends Error { constructor(status, msg, o) { super(msg, o); this.status = status; this.name = 'HttpError'; } }
const e = new HttpError(404, 'nope', { cause: 'why' });
console.log(String(e), e.status, e.cause, e instanceof Error, Object.prototype.toString.call(e));
class P extends Promise { tag = 'p'; }
const p = P.resolve(1).then((x) => x + 1);
console.log(p instanceof P, await p, P.all([1]) instanceof P);
class F extends Function { constructor() { super('a', 'return a * 2'); } }
console.log(new F()(21));
class U extends Uint8Array { sum() { return this.reduce((a, b) => a + b, 0); } }
console.log(U.of(1, 2, 255).sum(), new U(3).subarray(1) instanceof U);
