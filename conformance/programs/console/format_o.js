console.log('%o', [1, 2, 3]); console.log('%o', { a: 1, b: { c: {} } }); console.log('%o', 'text'); console.log('%o', 5);
console.log('%o', new Map([[1, 2]])); console.log('%o', new Set([1]));
