const { performance, PerformanceObserver, createHistogram } = require('perf_hooks');
const seen = [];
const observer = new PerformanceObserver((list) => seen.push(...list.getEntries()));
observer.observe({ entryTypes: ['function'] });
const { timerify } = performance;
function add(a, b = 1) { return a + b; }
class Point { constructor(x) { this.x = x; } }
const timed = timerify(add);
console.log(timed(1, 2), timed.name, timed.length, new (timerify(Point))(3));
const slow = timerify(async function slow() { await null; return 5; });
console.log(await slow());
try { timerify(() => { throw new Error('out'); })(); } catch (error) { console.log(error.message); }
await new Promise((done) => setTimeout(done, 5));
console.log(seen.map((entry) => [entry.name, entry.entryType, entry[0], entry.detail, typeof entry.duration]));
observer.disconnect();
const histogram = createHistogram();
const counted = timerify(() => 1, { histogram });
counted(); counted();
console.log(histogram.count, histogram.max > 0);
for (const args of [[1], [add, { histogram: {} }], [add, 5]]) {
  try { timerify(...args); } catch (error) { console.log(error.code); }
}
