const assert = require('assert');
const same = (a, b) => { try { assert.deepStrictEqual(a, b); return true; } catch { return false; } };
const loose = (a, b) => { try { assert.deepEqual(a, b); return true; } catch { return false; } };
console.log(same({ a: 1 }, { a: 1 }), same([1], ['1']), loose([1], ['1']), same(new Map([['a', { b: 1 }]]), new Map([['a', { b: 1 }]])), same(new Set([{ a: 1 }]), new Set([{ a: 1 }])), same([NaN], [NaN]), same([0], [-0]), loose([0], [-0]), same(new Date(1), new Date(2)), same(/a/g, /a/g), same({ a: undefined }, {}), loose({ a: undefined }, {}));
class A { x = 1; }
console.log(same(new A(), { x: 1 }), loose(new A(), { x: 1 }), same(new Uint8Array([1, 2]), new Uint8Array([1, 2])), same(Object(1), Object(1)), same([1, [2, [3]]], [1, [2, [3]]]));
