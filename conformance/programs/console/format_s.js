console.log('%s', 'text', 'rest'); console.log('%s', 5); console.log('%s', -0); console.log('%s', 12n); console.log('%s', Symbol('s')); console.log('%s', undefined); console.log('%s', null); console.log('%s', true);
console.log('%s', { a: 1, b: { c: 2 } }); console.log('%s', [1, [2, [3]]]); console.log('%s', () => 1); console.log('%s', new Date(0)); console.log('%s', new Map([[1, { a: 1 }]]));
console.log('%s', { toString() { return 'own text'; } }); class A { toString() { return 'class text'; } } console.log('%s', new A()); class B extends A {} console.log('%s', new B());
class C { x = 1; } console.log('%s', new C()); console.log('%s', Object.create(null)); console.log('%s', class D {});
console.log('%s', { [Symbol.toPrimitive]() { return 'primitive'; } });
