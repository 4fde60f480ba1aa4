const m = new Map([[NaN, 'nan'], [0, 'zero'], ['0', 'str'], [null, 'null'], [undefined, 'undef']]);
console.log(m.get(NaN), m.get(-0), m.get('0'), m.get(null), m.get(), m.size, m.has(NaN));
m.set(-0, 'minus'); console.log([...m.keys()].map((k) => Object.is(k, -0)).includes(true), m.get(0));
m.delete('0'); m.set('0', 'back'); console.log([...m.keys()].map(String).join(), m.set('x', 1) === m, m.delete('none'));
const order = []; m.forEach((v, k, mm) => { order.push(String(k)); if (k === null) { mm.delete(undefined); mm.set('added', 1); } }); console.log(order.join());
console.log([...new Map(Object.entries({ a: 1, b: 2 }))], Object.fromEntries(new Map([['k', { v: 1 }]])), new Map([...new Map([[1, 2]])].map(([k, v]) => [v, k])), JSON.stringify([...m.entries()].length));
const o = {}; const om = new Map([[o, 'o'], [{}, 'other']]); console.log(om.get(o), om.get({}), om.size); m.clear(); console.log(m.size, [...m], m);
for (const f of [() => Map(), () => new Map(5), () => new Map([1]), () => Map.prototype.get.call({}, 1), () => Map.prototype.size]) try { f(); console.log('ok'); } catch (e) { console.log(e.name); }
console.log(Map.length, Map.name, new Map().set('a', 1).set('b', 2).entries().next(), Object.prototype.toString.call(new Map().values()), Map[Symbol.species] === Map);
