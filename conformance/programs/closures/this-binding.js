const o = {
  name: 'o',
  method() { return this?.name; },
  nested() { return [1].map(() => this.name)[0]; },
};
console.log(o.method(), o.nested());
const { method } = o;
console.log((function () { 'use strict'; return this; })(), method.call({ name: 'called' }), method.apply({ name: 'applied' }, []), method.bind({ name: 'bound' })());
console.log(method.bind({ name: 'first' }).bind({ name: 'second' })());
class A { m() { return this === undefined; } }
const m = new A().m;
console.log(m());
console.log((0, o.method).call(o), (o.method)(), o?.method());
function Old(v) { this.v = v; }
Old.prototype.get = function () { return this.v; };
console.log(new Old(5).get(), new Old(5) instanceof Old, Old.prototype.constructor === Old);
function Returns() { this.a = 1; return { a: 2 }; }
console.log(new Returns().a);
