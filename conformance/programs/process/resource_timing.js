const { performance, PerformanceResourceTiming } = require('perf_hooks');
const about = (startTime) => ({
  startTime, endTime: startTime + 5, finalServiceWorkerStartTime: 0, redirectStartTime: 1, redirectEndTime: 2, postRedirectStartTime: 3, finalNetworkRequestStartTime: 4, finalNetworkResponseStartTime: 5, encodedBodySize: 7, decodedBodySize: 8,
  finalConnectionTimingInfo: { domainLookupStartTime: 1, domainLookupEndTime: 2, connectionStartTime: 3, connectionEndTime: 4, secureConnectionStartTime: 5, ALPNNegotiatedProtocol: 'h2' },
});
const mark = (start) => performance.markResourceTiming(about(start), 'https://example.com', 'fetch', globalThis, '');
const entry = mark(1);
console.log(entry instanceof PerformanceResourceTiming, entry.name, entry.entryType, entry.duration, entry.transferSize, entry.nextHopProtocol, entry.requestStart, entry.initiatorType, entry.encodedBodySize);
const starts = () => performance.getEntriesByType('resource').map((it) => it.startTime);
console.log(starts());
performance.setResourceTimingBufferSize(2);
performance.addEventListener('resourcetimingbufferfull', (event) => { console.log(event.type, starts()); performance.setResourceTimingBufferSize(3); });
for (const start of [2, 3, 4]) mark(start);
console.log(starts());
await new Promise((done) => setTimeout(done, 5));
console.log(starts());
performance.clearResourceTimings();
console.log(starts());
