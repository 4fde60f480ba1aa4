// The timeline of the session's `performance`.
const { Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, PerformanceObserverEntryList } = require('web/performance');
module.exports = { performance: globalThis.performance, Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, PerformanceObserverEntryList, constants: {} };
for (const [name, why] of [['createHistogram', 'keep the numbers in an array'], ['monitorEventLoopDelay', 'a session has no loop of its own']]) {
  module.exports[name] = { [name]: () => { throw Object.assign(new Error(`perf_hooks.${name} is not there in a session: ${why}`), { code: 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM' }); } }[name];
}
