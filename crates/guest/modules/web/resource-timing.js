// Entries of the timeline about what was asked of the network (https://www.w3.org/TR/resource-timing/): as many as there is room for, those that come
// while there is none behind an event that says so.
const { performance } = natives;
const { Event } = require('web/events');
const { PerformanceEntry, inner: { MADE, entries, observed } } = require('web/performance');

let [most, isFull, waiting] = [250, false, []];
// What an entry has of what it is told, by their names there.
const TIMES = {
  redirectStart: 'redirectStartTime', redirectEnd: 'redirectEndTime', fetchStart: 'postRedirectStartTime', requestStart: 'finalNetworkRequestStartTime', responseStart: 'finalNetworkResponseStartTime',
  responseEnd: 'endTime', encodedBodySize: 'encodedBodySize', decodedBodySize: 'decodedBodySize', workerStart: 'finalServiceWorkerStartTime',
};
const CONNECTION = { domainLookupStart: 'domainLookupStartTime', domainLookupEnd: 'domainLookupEndTime', connectStart: 'connectionStartTime', connectEnd: 'connectionEndTime', secureConnectionStart: 'secureConnectionStartTime', nextHopProtocol: 'ALPNNegotiatedProtocol' };
const HEADERS_BYTES = 300;
class PerformanceResourceTiming extends PerformanceEntry {
  #timing; #initiator; #mode;
  constructor(...args) {
    const [made, url, initiator, timing, mode] = args;
    super(made, url, 'resource', timing.startTime, timing.endTime - timing.startTime);
    [this.#timing, this.#initiator, this.#mode] = [timing, initiator, mode];
  }
  get initiatorType() { return this.#initiator; }
  get transferSize() { return this.#mode === 'local' ? 0 : this.#mode === 'validated' ? HEADERS_BYTES : this.#timing.encodedBodySize + HEADERS_BYTES; }
  toJSON() {
    const made = super.toJSON();
    for (const name of NAMES) made[name] = this[name];
    return made;
  }
  static {
    for (const [table, of] of [[TIMES, (timing) => timing], [CONNECTION, (timing) => timing.finalConnectionTimingInfo]]) {
      for (const [name, field] of Object.entries(table)) Object.defineProperty(this.prototype, name, Object.getOwnPropertyDescriptor({ get [name]() { return of(this.#timing)?.[field]; } }, name));
    }
  }
}
const NAMES = ['initiatorType', ...Object.keys(TIMES), ...Object.keys(CONNECTION), 'transferSize'];
for (const name of [...NAMES, 'toJSON']) Object.defineProperty(PerformanceResourceTiming.prototype, name, { enumerable: true });
Object.defineProperty(PerformanceResourceTiming.prototype, Symbol.toStringTag, { value: 'PerformanceResourceTiming', configurable: true });

const held = () => entries.filter((entry) => entry.entryType === 'resource').length;
// Who hears of it may make room; what still finds none is dropped.
const tell = () => {
  while (waiting.length > 0) {
    const before = waiting.length;
    if (held() >= most) performance.dispatchEvent(new Event('resourcetimingbufferfull'));
    while (waiting.length > 0 && held() < most) entries.push(waiting.shift());
    if (waiting.length >= before) waiting = [];
  }
  isFull = false;
};
const mark = (timing, url, initiator, global, mode) => {
  if (mode !== '' && mode !== 'local') throw Object.assign(new Error("cache must be an empty string or 'local'"), { code: 'ERR_INTERNAL_ASSERTION' });
  const entry = new PerformanceResourceTiming(MADE, `${url}`, initiator, timing, mode);
  observed(entry);
  if (!isFull && held() < most) entries.push(entry);
  else {
    if (!isFull) setImmediate(tell);
    isFull = true;
    waiting.push(entry);
  }
  return entry;
};
const resize = (size) => { most = size >>> 0; };
const clear = () => { entries.splice(0, entries.length, ...entries.filter((entry) => entry.entryType !== 'resource')); };
module.exports = { PerformanceResourceTiming, mark, resize, clear };
