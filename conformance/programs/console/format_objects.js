console.log('%j', { a: [1, 'x'] }); console.log('%j', undefined); console.log('%j', 'text'); console.log('%j', () => 1);
const c = {}; c.c = c; console.log('%j', c);
console.log('%O', { a: { b: { c: { d: 1 } } } }); console.log('%O and %O', [1], 'text');
