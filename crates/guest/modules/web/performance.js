// The timeline of `performance`: marks, measures, and who observes them.
const MADE = Symbol('made here');
const { performance } = natives;
const { EventTarget, adopt } = require('web/events');
const coded = (Kind, code, message) => Object.assign(new Kind(message), { code });
const entries = [];
const observers = new Set();
const SUPPORTED = Object.freeze(['function', 'mark', 'measure', 'resource']);
const needs = (given, ...names) => { if (given.length < names.length) throw coded(TypeError, 'ERR_MISSING_ARGS', `The "${names[given.length]}" argument must be specified`); };

class PerformanceEntry {
  #name; #type; #start; #duration;
  constructor(...args) {
    const [made, name, type, start, duration] = args;
    if (made !== MADE) throw coded(TypeError, 'ERR_ILLEGAL_CONSTRUCTOR', 'Illegal constructor');
    [this.#name, this.#type, this.#start, this.#duration] = [name, type, start, duration];
  }
  get name() { return this.#name; }
  get entryType() { return this.#type; }
  get startTime() { return this.#start; }
  get duration() { return this.#duration; }
  toJSON() { return { name: this.#name, entryType: this.#type, startTime: this.#start, duration: this.#duration }; }
}
const detailOf = (options) => (options?.detail === undefined || options.detail === null ? null : structuredClone(options.detail));
class PerformanceMark extends PerformanceEntry {
  #detail;
  constructor(name, options = {}) {
    needs(arguments, 'name');
    if (typeof options !== 'object') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "options" argument must be of type object.');
    const start = options?.startTime === undefined ? performance.now() : Number(options.startTime);
    if (!Number.isFinite(start)) throw new TypeError('startTime must be finite');
    if (start < 0) throw coded(TypeError, 'ERR_PERFORMANCE_INVALID_TIMESTAMP', `${start} is not a valid timestamp`);
    super(MADE, `${name}`, 'mark', start, 0);
    this.#detail = detailOf(options);
  }
  get detail() { return this.#detail; }
  toJSON() { return { ...super.toJSON(), detail: this.#detail }; }
}
class PerformanceMeasure extends PerformanceEntry {
  #detail;
  constructor(...args) {
    const [made, name, start, duration, detail] = args;
    super(made, name, 'measure', start, duration);
    this.#detail = detail;
  }
  get detail() { return this.#detail; }
  toJSON() { return { ...super.toJSON(), detail: this.#detail }; }
}
const inOrder = (list) => list.toSorted((a, b) => a.startTime - b.startTime);
const byName = (list, name, type) => inOrder(list.filter((entry) => entry.name === `${name}` && (type === undefined || entry.entryType === `${type}`)));
const byType = (list, type) => inOrder(list.filter((entry) => entry.entryType === `${type}`));
const observed = (entry) => { for (const observer of observers) observer[MADE](entry); };
const keep = (entry) => {
  entries.push(entry);
  observed(entry);
  return entry;
};
const timeOf = (mark) => {
  if (typeof mark === 'number') {
    if (mark < 0) throw coded(TypeError, 'ERR_PERFORMANCE_INVALID_TIMESTAMP', `${mark} is not a valid timestamp`);
    return mark;
  }
  const found = entries.findLast((entry) => entry.entryType === 'mark' && entry.name === `${mark}`);
  if (found === undefined) throw new DOMException(`The "${mark}" performance mark has not been set`, 'SyntaxError');
  return found.startTime;
};
const measure = (name, given, until) => {
  const options = typeof given === 'object' && given !== null ? given : { start: given ?? undefined };
  const end = until ?? options.end;
  if (options === given && ['start', 'end', 'duration', 'detail'].some((key) => given[key] !== undefined)) {
    if (until !== undefined) throw new TypeError('endMark must not be specified');
    if (given.start === undefined && given.end === undefined) throw new TypeError('One of options.start and options.end is required');
    if (given.start !== undefined && given.end !== undefined && given.duration !== undefined) throw new TypeError('Must not have options.start, options.end, and options.duration specified');
  }
  const to = end !== undefined ? timeOf(end) : options.start !== undefined && options.duration !== undefined ? timeOf(options.start) + timeOf(options.duration) : performance.now();
  const from = options.start !== undefined ? timeOf(options.start) : options.duration !== undefined && end !== undefined ? to - timeOf(options.duration) : 0;
  return keep(new PerformanceMeasure(MADE, `${name}`, from, to - from, detailOf(options)));
};
const clear = (type) => (name) => {
  const kept = entries.filter((entry) => entry.entryType !== type || (name !== undefined && entry.name !== `${name}`));
  entries.splice(0, entries.length, ...kept);
};

// A function whose calls are entries, with its arguments, and are counted in nanoseconds by a histogram.
class TimedCall extends PerformanceEntry {
  constructor(name, start, duration, detail) {
    super(MADE, name, 'function', start, duration);
    Object.defineProperty(this, 'detail', { value: detail, enumerable: true, configurable: true });
    Object.assign(this, detail);
  }
}
Object.defineProperty(TimedCall, 'name', { value: 'PerformanceEntry' });
const NANOSECONDS = 1e6;
const timerify = (work, options = {}) => {
  const { validateFunction, validateObject } = require('web/validators');
  validateFunction(work, 'fn');
  validateObject(options, 'options');
  const { histogram } = options;
  if (histogram !== undefined && !require('web/histogram').isHistogram(histogram)) throw new (require('web/errors').codes.ERR_INVALID_ARG_TYPE)('options.histogram', 'RecordableHistogram', histogram);
  const told = (start, args) => {
    const duration = performance.now() - start;
    histogram?.record(Math.max(1, Math.ceil(duration * NANOSECONDS)));
    observed(new TimedCall(work.name, start, duration, args));
  };
  function timerified(...args) {
    const start = performance.now();
    const result = new.target === undefined ? Reflect.apply(work, this, args) : Reflect.construct(work, args, work);
    if (new.target === undefined && typeof result?.finally === 'function') return result.finally(() => told(start, args));
    told(start, args);
    return result;
  }
  return Object.defineProperties(timerified, { length: { value: work.length, configurable: true }, name: { value: `timerified ${work.name}`, configurable: true } });
};
class PerformanceObserverEntryList {
  #list;
  constructor(...args) {
    const [made, list] = args;
    if (made !== MADE) throw coded(TypeError, 'ERR_ILLEGAL_CONSTRUCTOR', 'Illegal constructor');
    this.#list = list;
  }
  getEntries() { return inOrder(this.#list); }
  getEntriesByName(name, type = undefined) {
    needs(arguments, 'name');
    return byName(this.#list, name, type);
  }
  getEntriesByType(type) {
    needs(arguments, 'type');
    return byType(this.#list, type);
  }
}
class PerformanceObserver {
  #callback; #types = new Set(); #waiting = []; #asked = false; #single;
  static get supportedEntryTypes() { return SUPPORTED; }
  constructor(callback) {
    if (typeof callback !== 'function') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "callback" argument must be of type function.');
    this.#callback = callback;
  }
  observe(options = {}) {
    const { entryTypes, type, buffered } = options;
    if (entryTypes === undefined && type === undefined) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The "options.entryTypes" or "options.type" argument must be specified');
    if (entryTypes !== undefined && type !== undefined) throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', 'options.entryTypes can not set with options.type together');
    if (entryTypes !== undefined && !Array.isArray(entryTypes)) throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "options.entryTypes" property must be an instance of Array.');
    this.#single ??= type !== undefined;
    if (this.#single !== (type !== undefined)) throw new DOMException(`PerformanceObserver can not change to ${this.#single ? 'multiple observations' : 'single observation'}`, 'InvalidModificationError');
    if (entryTypes !== undefined) this.#types = new Set(entryTypes);
    else this.#types.add(type);
    observers.add(this);
    if (type !== undefined && buffered) for (const entry of entries) if (entry.entryType === type) this[MADE](entry);
  }
  disconnect() {
    observers.delete(this);
    this.#single = undefined;
    this.#types.clear();
    this.#waiting = [];
  }
  takeRecords() { return this.#waiting.splice(0); }
  [MADE](entry) {
    if (!this.#types.has(entry.entryType)) return;
    this.#waiting.push(entry);
    if (this.#asked) return;
    this.#asked = true;
    setImmediate(() => {
      this.#asked = false;
      if (this.#waiting.length > 0) this.#callback(new PerformanceObserverEntryList(MADE, this.#waiting.splice(0)), this);
    });
  }
}
const Performance = function Performance() { throw coded(TypeError, 'ERR_ILLEGAL_CONSTRUCTOR', 'Illegal constructor'); };
Object.defineProperty(Performance, 'prototype', { value: Object.getPrototypeOf(performance), writable: false });
const define = (name, value, enumerable) => Object.defineProperty(Performance.prototype, name, { value, writable: true, configurable: true, enumerable });
define('constructor', Performance, false);
Object.setPrototypeOf(Performance, EventTarget);
Object.setPrototypeOf(Performance.prototype, EventTarget.prototype);
adopt(performance);
for (const name of ['addEventListener', 'removeEventListener', 'dispatchEvent']) delete Performance.prototype[name];
// What was asked of the network, as whoever asked tells it: Node's own `fetch` does, a session's does not.
const resources = () => require('web/resource-timing');
// What the timeline of `performance` does, and what each needs at least.
const operations = {
  mark: [(...args) => keep(new PerformanceMark(...args)), 'name'], measure: [measure, 'name'], clearMarks: [clear('mark')], clearMeasures: [clear('measure')],
  getEntries: [() => inOrder(entries)], getEntriesByName: [(name, type) => byName(entries, name, type), 'name'], getEntriesByType: [(type) => byType(entries, type), 'type'],
  timerify: [timerify], eventLoopUtilization: [() => ({ idle: 0, active: 0, utilization: 0 })],
  markResourceTiming: [(...args) => resources().mark(...args)], setResourceTimingBufferSize: [(most) => resources().resize(most)], clearResourceTimings: [() => resources().clear()],
};
// What is Node's alone asks for no `this`.
const UNBOUND = ['timerify', 'eventLoopUtilization'];
for (const [name, [work, ...required]] of Object.entries(operations)) {
  const made = { [name](...args) {
    if (this !== performance && !UNBOUND.includes(name)) throw coded(TypeError, 'ERR_INVALID_THIS', 'Value of "this" must be of type Performance');
    needs(args, ...required);
    return work(...args);
  } }[name];
  define(name, Object.defineProperty(made, 'length', { value: required.length }), true);
}
for (const [Kind, names] of [
  [PerformanceEntry, ['name', 'entryType', 'startTime', 'duration', 'toJSON']], [PerformanceMark, ['detail']], [PerformanceMeasure, ['detail']],
  [PerformanceObserver, ['observe', 'disconnect', 'takeRecords']], [PerformanceObserverEntryList, ['getEntries', 'getEntriesByType', 'getEntriesByName']],
]) {
  for (const name of names) Object.defineProperty(Kind.prototype, name, { enumerable: true });
  Object.defineProperty(Kind.prototype, Symbol.toStringTag, { value: Kind.name, configurable: true });
}

module.exports = { Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, PerformanceObserverEntryList, get PerformanceResourceTiming() { return resources().PerformanceResourceTiming; } };
Object.defineProperty(module.exports, 'inner', { value: { MADE, entries, observed }, enumerable: false });
