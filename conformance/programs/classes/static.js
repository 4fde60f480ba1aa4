class Registry {
  static #items = new Map();
  static add(k, v) { this.#items.set(k, v); return this; }
  static get size() { return this.#items.size; }
  static *[Symbol.iterator]() { yield* this.#items; }
  static async later() { return this.size; }
}
Registry.add('a', 1).add('b', 2);
console.log(Registry.size, [...Registry], await Registry.later());
class Sub extends Registry {}
try { Sub.add('c', 3); } catch (e) { console.log(e.name); }
class Counter { static n = 1; static m = Counter.n + 1; static { for (let i = 0; i < 3; i++) this.m += i; } }
console.log(Counter.n, Counter.m, Object.getOwnPropertyNames(Counter).sort());
