// The timeline of the session's `performance`, and histograms.
const { Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, PerformanceObserverEntryList, PerformanceResourceTiming } = require('web/performance');
module.exports = {
  performance: globalThis.performance, Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, PerformanceObserverEntryList, PerformanceResourceTiming, constants: {},
  createHistogram: (options) => require('web/histogram').createHistogram(options),
  monitorEventLoopDelay: require('web/absent').absent('perf_hooks.monitorEventLoopDelay', 'a session has no loop of its own'),
};
