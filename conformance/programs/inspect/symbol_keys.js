console.log({ [Symbol('s')]: 1, [Symbol()]: 2, [Symbol.iterator]: null, a: 3 });
const o = {}; Object.defineProperty(o, Symbol('hidden'), { value: 1, enumerable: false }); o.shown = 1;
console.log(o);
console.log({ [Symbol("it's")]: 1, [Symbol('a\nb')]: 2 });
