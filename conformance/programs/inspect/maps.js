console.log(new Map(), new Map([[1, 2]]), new Map([['k', { v: 1 }], [{ o: 1 }, new Map([[1, new Map([[2, new Map()]])]])]]));
const m = new Map([['a', 1]]); m.extra = 1; console.log(m);
console.log(new Map(Array.from({ length: 5 }, (_, i) => ['key number ' + i, 'value number ' + i])));
console.log(new Map(Array.from({ length: 120 }, (_, i) => [i, i])));
