const { performance: same, PerformanceObserver: Observer } = require('perf_hooks');
console.log(same === performance, Observer === PerformanceObserver);
const a = performance.mark('a', { startTime: 5, detail: { x: [1] } });
performance.mark('b', { startTime: 12 });
console.log(a.name, a.entryType, a.startTime, a.duration, a.detail, a instanceof PerformanceMark, a instanceof PerformanceEntry);
const measured = performance.measure('both', 'a', 'b');
console.log(measured.name, measured.entryType, measured.startTime, measured.duration);
console.log(performance.measure('c', { start: 3, duration: 4 }).duration, performance.measure('d', { end: 9, duration: 4 }).startTime);
console.log(performance.getEntriesByType('mark').map((e) => e.name), performance.getEntriesByName('both').length);
for (const work of [() => performance.measure('x', 'missing'), () => performance.mark('n', { startTime: -1 }), () => new PerformanceEntry(), () => performance.mark()]) { try { work(); } catch (e) { console.log(e.name); } }
performance.clearMarks('a');
console.log(performance.getEntriesByType('mark').map((e) => e.name));
performance.clearMarks(); performance.clearMeasures();
const observer = new PerformanceObserver((list) => { console.log(list.getEntries().map((e) => e.name)); observer.disconnect(); });
observer.observe({ entryTypes: ['mark', 'measure'] });
performance.mark('seen', { startTime: 1 });
performance.measure('seen too', { start: 2, end: 3 });
