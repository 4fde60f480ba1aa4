console.log({ a: Array.from({ length: 20 }, (_, i) => i), b: Array.from({ length: 20 }, (_, i) => 'v' + i) });
console.log({ deep: { deeper: { numbers: [1, 2, 3], more: { x: 1 } } } });
console.log([[[[1, 2]]]], { a: [[[1]]] });
