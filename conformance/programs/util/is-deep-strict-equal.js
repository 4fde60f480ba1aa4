const { isDeepStrictEqual: eq } = require('util');
console.log(eq({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }), eq([1], ['1']), eq(NaN, NaN), eq(0, -0), eq(new Map([[1, { a: 1 }]]), new Map([[1, { a: 1 }]])), eq(new Set([1, 2]), new Set([2, 1])), eq(new Date(5), new Date(5)), eq(/a/g, /a/i), eq([1, , 3], [1, undefined, 3]));
console.log(eq(new Uint8Array([1]), new Uint8Array([1])), eq({}, Object.create(null)), eq(new Error('a'), new Error('a')), eq([1, 2], [1, 2, 3]), eq('a', 'a'), eq(Symbol.iterator, Symbol.iterator));
