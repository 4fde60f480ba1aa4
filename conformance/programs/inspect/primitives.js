console.log(undefined, null, true, false, 0, -0, 1.5, 1e21, 1e-7, NaN, Infinity, -Infinity, 12n, -5n);
console.log([undefined, null, true, -0, 0, NaN, 12n, Symbol('s'), Symbol(), Symbol.iterator, 'text']);
console.log(Symbol('with space'), [Symbol('new\nline')]);
