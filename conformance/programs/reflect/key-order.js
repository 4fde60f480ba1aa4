const o = { z: 1, 10: 'ten', a: 2, 2: 'two', [Symbol('s')]: 0, '-1': 'neg', '01': 'lead', 1.5: 'frac', 4294967295: 'big' , 4294967294: 'idx' };
o.late = 1; o[3] = 'three'; delete o.z; o.z = 'again';
console.log(Object.keys(o).join(), Reflect.ownKeys(o).length);
for (const k in Object.create(o, { own: { enumerable: true } })) console.log(k);
console.log(JSON.stringify(o), Object.entries({ b: 1, a: 2 }).flat().join());
console.log(Object.keys([5, 6]), Object.keys('ab'), Object.getOwnPropertyNames(function f(a) {}).sort().join(), Object.keys(Object.assign({ x: 1 }, 'hi', null, [9])));
const parent = { a: 1, shared: 1 }, child = Object.create(parent, { shared: { value: 2, enumerable: false }, own: { value: 1, enumerable: true } });
const seen = [];
for (const k in child) seen.push(k);
console.log(seen);
const deleting = { a: 1, b: 2, c: 3 };
const visited = [];
for (const k in deleting) { visited.push(k); delete deleting.b; deleting.d = 4; }
console.log(visited);
