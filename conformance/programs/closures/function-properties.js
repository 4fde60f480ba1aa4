function plain(a, b) { return a + b; }
const arrow = (x) => x;
class K { static s() {} get g() { return 1; } async am() {} *gm() {} }
console.log(plain.name, arrow.name, (() => {}).name === '', K.name, K.s.name, K.prototype.am.name, K.prototype.gm.name);
console.log(Object.getOwnPropertyDescriptor(K.prototype, 'g').get.name, plain.bind().name, new Function('a', 'return a').name);
const sym = Symbol('desc');
const o = { [sym]() {}, ['a' + 1]: () => {}, 'quoted key': function () {} };
console.log(o[sym].name, o.a1.name, o['quoted key'].name);
console.log(typeof plain.prototype, typeof arrow.prototype, 'prototype' in K.prototype.am, Object.getOwnPropertyNames(plain.prototype).join());
console.log(JSON.stringify(Object.getOwnPropertyDescriptor(plain, 'name')), JSON.stringify(Object.getOwnPropertyDescriptor(plain, 'length')));
