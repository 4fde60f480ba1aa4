console.log([...[10, 20].entries()], [...[10, 20].keys()], [...[10, 20].values()]);
console.log([...new Map([['a', 1]]).entries()], [...new Set([1, 1, 2])], [...'a😀b']);
const it = [1, 2, 3][Symbol.iterator]();
it.next();
console.log([...it], it.next(), it[Symbol.iterator]() === it);
console.log(Object.prototype.toString.call([].values()), Object.prototype.toString.call(new Map().keys()), Object.prototype.toString.call(''[Symbol.iterator]()));
const growing = [1, 2];
const seen = [];
for (const x of growing) { seen.push(x); if (growing.length < 5) growing.push(x * 10); }
console.log(seen);
const m = new Map([[1, 'a'], [2, 'b'], [3, 'c']]);
const order = [];
for (const [k] of m) { order.push(k); if (k === 1) { m.delete(2); m.set(4, 'd'); } if (k === 3) { m.delete(3); m.set(3, 'again'); if (order.length > 6) break; } if (order.length > 6) break; }
console.log(order.join());
console.log([...'ab'.matchAll(/./g)].map((x) => x.index));
