const o = { n: 1, get double() { return this.n * 2; }, set double(v) { this.n = v / 2; }, get ['comp' + 'uted']() { return 'c'; }, get 0() { return 'zero'; }, get 'str key'() { return 's'; }, get get() { return 'get'; }, set set(v) { this.got = v; }, async: 1, static: 2, get() {}, };
o.double = 10; o.set = 5; console.log(o.n, o.double, o.computed, o[0], o['str key'], o.got, o.async + o.static, typeof o.get);
const c = Object.create(o); c.double = 40; console.log(c.n, Object.hasOwn(c, 'n'), o.n, c.double);
const lazy = { get v() { const value = Math.sqrt(16); Object.defineProperty(this, 'v', { value }); return value; } }; console.log(lazy.v, lazy.v, Object.getOwnPropertyDescriptor(lazy, 'v').value);
const noSet = { get x() { return 1; } }; noSet.y = 2; console.log((() => { 'use strict'; try { noSet.x = 2; } catch (e) { return e.name; } })(), noSet.x); const noGet = { set x(v) {} }; console.log(noGet.x);
console.log(Object.assign({}, { get a() { return 'copied'; } }), { ...{ get b() { return 'spread'; } } }, Object.keys(o).join(), JSON.stringify({ get j() { return [1]; } }), o.__lookupGetter__('double') !== undefined);
o.__defineGetter__('old', () => 'style'); console.log(o.old, Object.getOwnPropertyDescriptor({ get a() {} }, 'a').set, super_());
function super_() { const base = { get x() { return `base ${this.name}`; } }; return { __proto__: base, name: 'derived', get x() { return super.x; } }.x; }
