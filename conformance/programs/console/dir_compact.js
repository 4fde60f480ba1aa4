console.dir({ a: { b: { c: 1 } } }, { compact: 1 }); console.dir([[1, 2, [3, 4]], [5]], { compact: 2 }); console.dir({ a: { b: { c: { d: 1 } } } }, { compact: 0, depth: null });
