class A { #v = 1; get v() { return this.#v; } static is(o) { return #v in o; } }
const p = new Proxy(new A(), {});
console.log(A.is(p));
try { p.v; } catch (e) { console.log(e.name); }
const forwarding = new Proxy(new A(), { get(t, k) { return Reflect.get(t, k, t); } });
console.log(forwarding.v);
class Base { constructor() { this.init?.(); } }
class Derived extends Base { #x = 'set'; init() { try { this.#x; } catch (e) { console.log('before super ends', e.name); } } get x() { return this.#x; } }
console.log(new Derived().x);
