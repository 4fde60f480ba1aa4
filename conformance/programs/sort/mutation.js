const a = [3, 1, 2]; const same = a.sort(); console.log(same === a, a.toSorted((x, y) => y - x).join(), a.join());
const grows = [3, 2, 1]; grows.sort((x, y) => { if (grows.length < 6) grows.push(9); return x - y; }); console.log(grows.length >= 3, grows.slice(0, 3).join());
console.log(Object.keys([, 'b', , 'a'].sort()).join(), [, , 1].sort().length, 0 in [, 1].toSorted(), [undefined, 3].sort((x, y) => y - x).map(String).join());
const frozen = Object.freeze([2, 1]); try { frozen.sort(); } catch (e) { console.log(e.name); } console.log(frozen.toSorted().join());
const seen = new Set(); [5, 3, 4, 1].sort((x, y) => { seen.add(typeof x); return x - y; }); console.log([...seen].join()); const t = Float32Array.of(2, NaN, -0, 0, 1).sort(); console.log(Array.from(t, (x) => (Object.is(x, -0) ? '-0' : x)).join());
const objs = [{ v: 2 }, { v: 1 }]; const copy = [...objs].sort((x, y) => x.v - y.v); console.log(copy[0] === objs[1], objs[0].v);
