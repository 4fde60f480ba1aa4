console.log([1, 'two', 3, 'four', 5, 'six', 7, 'eight', { a: 1 }]);
console.log([true, false, true, false, true, false, true, false]);
console.log([1n, 2n, 3n, 4n, 5n, 6n, 70n, 800n]);
console.log([1, 2, 3, 4, 5, 6, 7, undefined, null, NaN]);
console.log([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12], [13, 14]]);
console.log(Array.from({ length: 10 }, (_, i) => ({ id: i, name: 'n' + i })));
