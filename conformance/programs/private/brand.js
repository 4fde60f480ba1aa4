class A {
  #x = 1;
  #m() { return this.#x; }
  get #g() { return this.#x * 10; }
  set #g(v) { this.#x = v; }
  static #s = 's';
  static has(o) { return #x in o; }
  static read(o) { return o.#x; }
  static s() { return A.#s; }
  run() { this.#g = 5; this.#x++; this.#x **= 2; return [this.#m(), this.#g, this?.#x]; }
}
console.log(A.has(new A()), A.has({}), A.s(), new A().run());
try { A.read({}); } catch (e) { console.log(e.name); }
try { A.has(1); } catch (e) { console.log(e.name); }
class Stamp extends (class { constructor(o) { return o; } }) { #p = 'stamped'; static get(o) { return o.#p; } }
const plain = {};
new Stamp(plain);
console.log(Stamp.get(plain), Object.getOwnPropertyNames(plain));
try { new Stamp(plain); } catch (e) { console.log(e.name); }
console.log(JSON.stringify(new A()), Object.keys(new A()));
