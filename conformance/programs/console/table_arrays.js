console.table([[1, 2], [3, 4, 5]]); console.table([1, 'two', { three: 3 }]); console.table(['a', 'b']); console.table([]); console.table({}); console.table([[]]);
