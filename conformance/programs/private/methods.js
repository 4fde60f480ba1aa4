class Q {
  #items = [];
  #check() { if (this.#items.length === 0) throw new RangeError('empty'); }
  push(...a) { this.#items.push(...a); return this; }
  pop() { this.#check(); return this.#items.pop(); }
  static #instances = 0;
  static create() { Q.#instances++; return new Q(); }
  static get instances() { return this.#instances; }
  async #later() { await null; return this.#items.length; }
  later() { return this.#later(); }
  *#iter() { yield* this.#items; }
  [Symbol.iterator]() { return this.#iter(); }
}
const q = Q.create().push(1, 2, 3);
console.log(q.pop(), [...q], await q.later(), Q.instances);
try { Q.create().pop(); } catch (e) { console.log(String(e)); }
try { (() => { class W { #m() {} set() { this.#m = 1; } } new W().set(); })(); } catch (e) { console.log(e.name); }
class Nested { #a = 1; inner() { const self = this; return new (class { #b = 2; sum() { return self.#a + this.#b; } })(); } }
console.log(new Nested().inner().sum());
