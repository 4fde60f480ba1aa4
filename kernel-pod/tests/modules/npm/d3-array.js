import { ascending, bin, extent, group, quantile, rollups, ticks, deviation, InternMap } from 'd3-array';
const values = [4, 8, 15, 16, 23, 42];
console.log(extent(values), quantile(values, 0.4), deviation(values), ticks(0, 1, 5));
console.log(bin().thresholds(3)(values).map((b) => [b.x0, b.x1, b.length]));
console.log([...group(values, (v) => v % 2)], rollups(values, (v) => v.length, (v) => v > 10));
console.log(new InternMap([[new Date(0), 'a']]).get(new Date(0)), ['b', 'a'].sort(ascending));
