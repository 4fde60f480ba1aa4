const { createHistogram } = require('perf_hooks');
const { inspect } = require('util');
const empty = createHistogram();
console.log(empty.count, empty.min, empty.max, empty.mean, empty.stddev, empty.exceeds, empty.minBigInt, empty.percentiles);
for (const values of [[1], [1, 2, 3, 4], [5, 5, 5, 90], [1000, 2047, 2048, 2049, 4097, 1e6, 123456789], Array.from({ length: 100 }, (_, at) => at + 1)]) {
  const it = createHistogram();
  for (const value of values) it.record(value);
  console.log(it.count, it.min, it.max, it.mean, it.stddev, [1, 25, 50, 75, 99, 100].map((part) => it.percentile(part)), it.percentiles, it.maxBigInt, it.percentileBigInt(50));
}
const some = createHistogram({ lowest: 1, highest: 1000, figures: 1 });
for (const value of [1, 17, 33, 999, 5000n]) some.record(value);
console.log(some.count, some.exceeds, some.min, some.max, some.percentile(50), some.countBigInt);
const other = createHistogram();
other.record(12);
empty.add(other);
console.log(empty.count, empty.max);
empty.reset();
console.log(empty.count, empty.max);
console.log(inspect(other), inspect(other, { depth: -1 }), JSON.stringify(other));
for (const work of [() => other.record(0), () => other.record('1'), () => other.record(1.5), () => other.percentile(0), () => other.percentile(101), () => other.percentile('a'), () => createHistogram(1), () => createHistogram({ figures: 6 }), () => createHistogram({ lowest: 0 }), () => createHistogram({ lowest: 5, highest: 6 }), () => other.add({}), () => new other.constructor()]) {
  try { work(); console.log('did'); } catch (error) { console.log(error.name, error.code); }
}
