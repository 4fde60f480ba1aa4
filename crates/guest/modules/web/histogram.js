// Node's histograms: counts of whole numbers in classes that are narrow enough for so many significant digits, as HdrHistogram lays them out
// (http://hdrhistogram.org, hdr_histogram.c).
const { codes } = require('web/errors');
const { validateInteger, validateNumber, validateObject } = require('web/validators');

const MADE = Symbol('made here');
const EMPTY_MIN = 9223372036854775807n;
const FIGURES_MAX = 5;
// Node's own maps show themselves so.
class SafeMap extends Map {}
class Histogram {
  #counts = new Map();
  #count = 0; #exceeds = 0; #min = Infinity; #max = 0; #last;
  #lowest; #highest; #unit; #halfBits;
  constructor(made, lowest, highest, figures) {
    if (made !== MADE) throw Object.assign(new TypeError('Illegal constructor'), { code: 'ERR_ILLEGAL_CONSTRUCTOR' });
    [this.#lowest, this.#highest] = [lowest, highest];
    this.#unit = Math.floor(Math.log2(lowest));
    this.#halfBits = Math.max(Math.ceil(Math.log2(2 * 10 ** figures)), 1) - 1;
  }
  // How wide the class of a value is, as a power of two.
  #width(value) { return 2 ** Math.max(this.#unit, Math.floor(Math.log2(Math.max(value, 1))) - this.#halfBits); }
  #class(value) {
    const width = this.#width(value);
    return Math.floor(value / width) * width;
  }
  #top(value) { return this.#class(value) + this.#width(value) - 1; }
  #sorted() { return [...this.#counts].sort(([one], [other]) => one - other); }
  get count() { return this.#count; }
  get countBigInt() { return BigInt(this.#count); }
  get exceeds() { return this.#exceeds; }
  get exceedsBigInt() { return BigInt(this.#exceeds); }
  get min() { return this.#count === 0 ? Number(EMPTY_MIN) : this.#class(this.#min); }
  get minBigInt() { return this.#count === 0 ? EMPTY_MIN : BigInt(this.min); }
  get max() { return this.#count === 0 ? 0 : this.#top(this.#max); }
  get maxBigInt() { return BigInt(this.max); }
  #middle(value) { return this.#class(value) + Math.floor(this.#width(value) / 2); }
  get mean() {
    let sum = 0;
    for (const [value, times] of this.#counts) sum += this.#middle(value) * times;
    return sum / this.#count;
  }
  get stddev() {
    const { mean } = this;
    let sum = 0;
    for (const [value, times] of this.#counts) sum += (this.#middle(value) - mean) ** 2 * times;
    return Math.sqrt(sum / this.#count);
  }
  percentile(percentile) {
    validateNumber(percentile, 'percentile');
    if (!(percentile > 0 && percentile <= 100)) throw new codes.ERR_OUT_OF_RANGE('percentile', '> 0 && <= 100', percentile);
    const wanted = Math.max(1, Math.floor((percentile / 100) * this.#count + 0.5));
    let seen = 0;
    for (const [value, times] of this.#sorted()) {
      seen += times;
      if (seen >= wanted) return this.#top(value);
    }
    return 0;
  }
  percentileBigInt(percentile) { return BigInt(this.percentile(percentile)); }
  // Steps that halve what is left up to 100.
  get percentiles() {
    const found = new SafeMap();
    let [seen, next, top] = [0, 0, 0];
    for (const [value, times] of this.#sorted()) {
      seen += times;
      top = value;
      while (next <= 100 && next <= (100 * seen) / this.#count && (seen < this.#count || !found.has(next))) {
        found.set(next, top);
        if (next >= 100) break;
        next += 100 / 2 ** (Math.trunc(Math.log2(100 / (100 - next))) + 1);
        if (seen === this.#count) break;
      }
    }
    found.set(100, top);
    return found;
  }
  get percentilesBigInt() { return new SafeMap([...this.percentiles].map(([percentile, value]) => [percentile, BigInt(value)])); }
  reset() {
    this.#counts.clear();
    [this.#count, this.#exceeds, this.#min, this.#max, this.#last] = [0, 0, Infinity, 0, undefined];
  }
  toJSON() {
    const { count, min, max, mean, exceeds, stddev, percentiles } = this;
    return { count, min, max, mean, exceeds, stddev, percentiles: Object.fromEntries(percentiles) };
  }
  [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) {
    if (depth < 0) return '[RecordableHistogram]';
    const { min, max, mean, exceeds, stddev, count, percentiles } = this;
    return `Histogram ${inspect({ min, max, mean, exceeds, stddev, count, percentiles }, { ...options, depth: options.depth === null ? null : options.depth - 1 })}`;
  }
  static #keep(histogram, value, times) {
    if (value > histogram.#highest) {
      histogram.#exceeds += times;
      return;
    }
    const at = histogram.#class(value);
    histogram.#counts.set(at, (histogram.#counts.get(at) ?? 0) + times);
    histogram.#count += times;
    histogram.#min = Math.min(histogram.#min, value);
    histogram.#max = Math.max(histogram.#max, value);
  }
  record(value) {
    if (typeof value !== 'bigint') validateInteger(value, 'val', 1);
    Histogram.#keep(this, Number(value), 1);
  }
  // Since the last time, in nanoseconds.
  recordDelta() {
    const now = Math.round(performance.now() * 1e6);
    if (this.#last !== undefined && now > this.#last) Histogram.#keep(this, now - this.#last, 1);
    this.#last = now;
  }
  add(other) {
    if (!isHistogram(other)) throw new codes.ERR_INVALID_ARG_TYPE('other', 'RecordableHistogram', other);
    for (const [value, times] of other.#counts) Histogram.#keep(this, value, times);
    this.#exceeds += other.#exceeds;
  }
  static is(value) { return typeof value === 'object' && value !== null && #counts in value; }
}
const isHistogram = Histogram.is;
delete Histogram.is;
Object.defineProperty(Histogram, 'name', { value: 'RecordableHistogram' });
const limit = (value, name, least) => {
  if (typeof value === 'bigint') return Number(value);
  validateInteger(value, `options.${name}`, least);
  return value;
};
const createHistogram = (options = {}) => {
  validateObject(options, 'options');
  const { lowest = 1, highest = Number.MAX_SAFE_INTEGER, figures = 3 } = options;
  const low = limit(lowest, 'lowest', 1);
  const high = limit(highest, 'highest', 2 * low);
  validateInteger(figures, 'options.figures', 1, FIGURES_MAX);
  return new Histogram(MADE, low, high, figures);
};
module.exports = { createHistogram, isHistogram };
