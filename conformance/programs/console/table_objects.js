console.table([{ a: 1, b: 'x' }, { a: 2, c: true }]); console.table([{ name: 'Ann', age: 30 }, { name: 'Bob', age: 4 }], ['name']); console.table({ r1: { c: 1 }, r2: { c: 2 } });
