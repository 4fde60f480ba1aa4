console.log({}, { a: 1 }, { a: 1, b: 'two', c: [3] }, { 'with-dash': 1, 2: 'two', $dollar: 3, _under: 4, 'a b': 5, '': 6 });
console.log({ a: { b: { c: { d: 1 } } } }, { a: { b: { c: {} } } }, { a: { b: { c: [] } } }, { a: { b: { c: [1] } } });
console.log({ undefined: undefined, null: null, fn() {}, arrow: () => 1, async am() {}, *gen() {}, async *ag() {} });
