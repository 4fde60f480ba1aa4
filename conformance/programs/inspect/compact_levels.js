console.log({ a: { b: { c: {} } } });
console.log({ a: { b: { c: 1 } } });
console.log([{ a: [{ b: [{ c: 1 }] }] }]);
console.log({ a: [1, 2, { b: [3, 4, { c: 5 }] }] });
console.log([[[]]], [[[[]]]], [[[1]]], [[[[1]]]]);
console.log({ l1: { l2: { l3: 1 } }, m1: { m2: 2 } });
