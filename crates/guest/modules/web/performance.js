// The timeline of `performance`: marks, measures, and who observes them.
const MADE = Symbol('made here');
const performance = globalThis.performance;
const coded = (Kind, code, message) => Object.assign(new Kind(message), { code });
const entries = [];
const observers = new Set();

class PerformanceEntry {
  #name; #type; #start; #duration;
  constructor(made, name, type, start, duration) {
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
    if (arguments.length === 0) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The "name" argument must be specified');
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
  constructor(made, name, start, duration, detail) {
    super(made, name, 'measure', start, duration);
    this.#detail = detail;
  }
  get detail() { return this.#detail; }
  toJSON() { return { ...super.toJSON(), detail: this.#detail }; }
}
const inOrder = (list) => list.toSorted((a, b) => a.startTime - b.startTime);
const byName = (list, name, type) => inOrder(list.filter((entry) => entry.name === `${name}` && (type === undefined || entry.entryType === `${type}`)));
const byType = (list, type) => inOrder(list.filter((entry) => entry.entryType === `${type}`));
const keep = (entry) => {
  entries.push(entry);
  for (const observer of observers) observer[MADE](entry);
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
const measure = (...args) => {
  if (args.length === 0) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The "name" argument must be specified');
  const [name, given, until] = args;
  const options = typeof given === 'object' && given !== null ? given : { start: given };
  const end = until ?? options.end;
  if (options === given && Object.keys(given).length > 0) {
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

class PerformanceObserverEntryList {
  #list;
  constructor(made, list) {
    if (made !== MADE) throw coded(TypeError, 'ERR_ILLEGAL_CONSTRUCTOR', 'Illegal constructor');
    this.#list = list;
  }
  getEntries() { return inOrder(this.#list); }
  getEntriesByName(name, type) { return byName(this.#list, name, type); }
  getEntriesByType(type) { return byType(this.#list, type); }
}
class PerformanceObserver {
  #callback; #types = new Set(); #waiting = []; #asked = false;
  static get supportedEntryTypes() { return ['mark', 'measure']; }
  constructor(callback) {
    if (typeof callback !== 'function') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "callback" argument must be of type function.');
    this.#callback = callback;
  }
  observe(options = {}) {
    const { entryTypes, type, buffered } = options;
    if (entryTypes === undefined && type === undefined) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The "options.entryTypes" or "options.type" argument must be specified');
    if (entryTypes !== undefined && type !== undefined) throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', 'options.entryTypes can not set with options.type together');
    if (entryTypes !== undefined) this.#types = new Set(entryTypes);
    else this.#types.add(type);
    observers.add(this);
    if (type !== undefined && buffered) for (const entry of entries) if (entry.entryType === type) this[MADE](entry);
  }
  disconnect() {
    observers.delete(this);
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
class Performance {
  constructor() { throw coded(TypeError, 'ERR_ILLEGAL_CONSTRUCTOR', 'Illegal constructor'); }
  static [Symbol.hasInstance](value) { return value === performance; }
}
for (const [Kind, names] of [[PerformanceEntry, ['name', 'entryType', 'startTime', 'duration', 'toJSON']], [PerformanceMark, ['detail']], [PerformanceMeasure, ['detail']]]) {
  for (const name of names) Object.defineProperty(Kind.prototype, name, { enumerable: true });
  Object.defineProperty(Kind.prototype, Symbol.toStringTag, { value: Kind.name, configurable: true });
}

module.exports = {
  Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, PerformanceObserverEntryList, measure,
  mark: (...args) => keep(new PerformanceMark(...args)),
  clearMarks: clear('mark'), clearMeasures: clear('measure'),
  getEntries: () => inOrder(entries),
  getEntriesByName: (name, type) => byName(entries, name, type),
  getEntriesByType: (type) => byType(entries, type),
  timerify: (work) => work,
  eventLoopUtilization: () => ({ idle: 0, active: 0, utilization: 0 }),
};
