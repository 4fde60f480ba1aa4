console.table([{ a: 1, b: 2 }, { b: 3 }], ['b', 'missing']); console.table([1, 2], ['x']); console.table([[1, 2, 3]], [0, 2]);
