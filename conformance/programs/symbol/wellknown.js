class Even { static [Symbol.hasInstance](n) { return n % 2 === 0; } }
console.log(2 instanceof Even, 3 instanceof Even);
console.log([1].concat({ length: 1, 0: 'spread', [Symbol.isConcatSpreadable]: true }, Object.assign([2, 3], { [Symbol.isConcatSpreadable]: false }).length));
console.log('a-b-c'.split({ [Symbol.split](s, l) { return ['custom', s, l]; } }, 2), 'x'.replace({ [Symbol.replace]: (s, r) => `${s}:${r}` }, 'r'), 'x'.match({ [Symbol.match]: () => 'm' }), 'x'.search({ [Symbol.search]: () => 42 }), 'x'.matchAll({ [Symbol.matchAll]: () => ['ma'] }));
console.log(Object.prototype.toString.call({ [Symbol.toStringTag]: 'Custom' }), `${{ [Symbol.toStringTag]: 'T' }}`, Object.prototype.toString.call(null), Object.prototype.toString.call(1n));
console.log(['startsWith', 'includes', 'endsWith'].map((m) => { try { return 'a/b'[m](/a/); } catch (e) { return e.name; } }));
const re = /a/; re[Symbol.match] = false;
console.log('/a/'.includes(re));
console.log(Object.keys(Array.prototype[Symbol.unscopables]).includes('flat'), Array.prototype[Symbol.unscopables].values);
console.log([Math, JSON, Reflect, new Map(), new WeakSet(), function* () {}, async () => {}, new ArrayBuffer(1), new DataView(new ArrayBuffer(1)), Symbol('x'), 1n].map((x) => x[Symbol.toStringTag]).join());
