const s = Symbol('d'), t = Symbol('d');
console.log(s === t, s.toString(), s.description, Symbol().description, Symbol('').description === '', typeof s, Object(s) == s, typeof Object(s));
console.log(Symbol.for('k') === Symbol.for('k'), Symbol.keyFor(Symbol.for('k')), Symbol.keyFor(s), Symbol.for('k').description);
const o = { [s]: 1, [t]: 2, plain: 3 };
console.log(Object.keys(o), Object.getOwnPropertySymbols(o).length, JSON.stringify(o), s in o, o[s] + o[t], { ...o }[t]);
for (const f of [() => s + '', () => `${s}`, () => +s, () => new Symbol(), () => Symbol.keyFor('x'), () => s * 1]) try { f(); console.log('no error'); } catch (e) { console.log(e.name); }
console.log(String(s), [s].map(String), !!s, s ? 1 : 2, Object.is(s, s), JSON.stringify([s]), JSON.stringify({ a: s }));
console.log(['iterator', 'asyncIterator', 'hasInstance', 'toPrimitive', 'toStringTag', 'species', 'isConcatSpreadable', 'unscopables', 'match', 'matchAll', 'replace', 'search', 'split'].map((k) => Symbol[k].toString()).join());
console.log(new Map([[s, 'v']]).get(s), new Set([s, s, t]).size, Object(s).description, s.valueOf() === s);
