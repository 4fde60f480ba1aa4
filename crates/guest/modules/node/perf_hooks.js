// The timeline of the session's `performance`.
const { Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, PerformanceObserverEntryList } = require('web/performance');
module.exports = { performance: globalThis.performance, Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, PerformanceObserverEntryList, constants: {} };
