class Temp {
  #c = 0;
  static #made = 0;
  constructor() { Temp.#made++; }
  get f() { return this.#c * 1.8 + 32; }
  set f(v) { this.#c = (v - 32) / 1.8; }
  get c() { return this.#c; }
  static get made() { return Temp.#made; }
}
const t = new Temp();
t.f = 212;
console.log(t.c, t.f, Temp.made, 'f' in t, Object.keys(t));
try { (() => { 'use strict'; t.c = 5; })(); } catch (e) { console.log(e.name); }
const desc = Object.getOwnPropertyDescriptor(Temp.prototype, 'f');
console.log(typeof desc.get, typeof desc.set, desc.enumerable, desc.configurable);
try { (() => { 'use strict'; Temp.made = 3; })(); } catch (e) { console.log(e.name); }
console.log(Temp.made);
