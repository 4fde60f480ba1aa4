const A = class Named { static self() { return Named; } me() { return Named === A; } };
console.log(A.name, A.self() === A, new A().me(), typeof Named);
const anon = class {};
console.log(anon.name, (class {}).name === '', ({ k: class {} }).k.name);
const make = (n) => class { static n = n; v = n * 2; };
console.log(new (make(4))().v, make(1) === make(1));
const o = { ['x' + 1]: class {} };
console.log(o.x1.name);
class C { constructor() { return { other: true }; } }
console.log(new C());
class D extends C { z = 3; }
console.log(JSON.stringify(new D()));
console.log(typeof A, Object.prototype.toString.call(A), Object.getOwnPropertyDescriptor(A, 'prototype').writable);
