const m = new Map([['a', 1], ['b', { c: 2 }]]);
console.log(m.keys(), m.values(), m.entries(), m[Symbol.iterator]());
const s = new Set([1, 'two']);
console.log(s.values(), s.keys(), s.entries());
const it = m.entries(); it.next(); console.log(it); it.next(); it.next(); console.log(it);
console.log(new Map().keys(), new Set().entries());
console.log([1, 2][Symbol.iterator](), 'ab'[Symbol.iterator](), 'ab'.matchAll(/a/g));
