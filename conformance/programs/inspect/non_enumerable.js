const o = { shown: 1 };
Object.defineProperty(o, 'hidden', { value: 2, enumerable: false });
console.log(o, Object.freeze({ a: 1 }), Object.seal([1]));
console.log({ __proto__: null, ['__proto__']: 1 });
