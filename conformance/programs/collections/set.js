const s = new Set([3, 1, 3, NaN, NaN, 0, -0, 'a', 'A', undefined, undefined]);
console.log(s.size, [...s], s.has(-0), s.add(9) === s, s.delete(3), s.add(3), [...s].at(-1), s.keys === s.values, [...s.entries()][0]);
console.log([...new Set('hello')].join(''), new Set([[1], [1]]).size, [...new Set([1, 2, 3])].filter((x) => new Set([2, 3, 4]).has(x)), new Set(new Set([1])).size, [...new Set([5, 1, 4].sort())]);
const during = new Set([1, 2, 3]); const seen = []; for (const x of during) { seen.push(x); during.delete(x); if (seen.length < 8) during.add(x < 3 ? x + 10 : x); if (seen.length > 9) break; } console.log(seen.join(), [...during].join());
const cleared = new Set([1, 2]); const out = []; for (const x of cleared) { out.push(x); if (x === 1) { cleared.clear(); cleared.add(7); } } console.log(out);
const it = new Set([1]).values(); it.next(); console.log(it.next(), it.next(), it[Symbol.toStringTag]);
for (const f of [() => Set(), () => new Set(1), () => Set.prototype.add.call(new Map(), 1), () => new Set(null).size]) try { console.log(f()); } catch (e) { console.log(e.name); }
console.log(s, new Set(), new Set(['x', { a: 1 }]));
