function* g(a, b = a + 1) { yield arguments.length; yield [a, b]; yield new.target; }
console.log([...g(1)], [...g(1, 5)]);
console.log(Object.prototype.toString.call(g), Object.prototype.toString.call(g()), typeof g.prototype, g.constructor.name, 'constructor' in g.prototype);
try { new g(); } catch (e) { console.log(e.name); }
const it = g(1);
console.log(it[Symbol.iterator]() === it, it instanceof g, Object.getPrototypeOf(it) === g.prototype);
const busy = (function* () { try { it2.next(); } catch (e) { yield e.name; } })();
const it2 = busy;
console.log(busy.next());
const o = { *gen() { yield this.v; }, v: 3, async *agen() { yield this.v; } };
console.log([...o.gen()], await o.agen().next());
class C { static *[Symbol.iterator]() { yield 'static'; } *items() { yield* [1, 2]; } }
console.log([...C], [...new C().items()]);
const lazy = function* (it) { for (const x of it) if (x % 2) yield x * x; };
console.log([...lazy([1, 2, 3, 4, 5])]);
