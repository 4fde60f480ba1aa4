// Intl.Segmenter over the rules of Unicode (UAX #29) in the engine.
const { canonicalList, available, LookupSupportedLocales } = require('web/locales');
const { segment } = natives.part('segments');

const known = () => Object.keys(require('intl/inventory').number);
const KINDS = ['grapheme', 'word', 'sentence'];
class Segments {
  #text; #granularity; #ends;
  constructor(text, granularity) {
    this.#text = text;
    this.#granularity = granularity;
    // Halves of pairs count as what replaces them, which has the same length.
    this.#ends = segment(granularity, text.toWellFormed());
  }
  #at(index) {
    const from = index === 0 ? 0 : Math.abs(this.#ends[index - 1]);
    const end = Math.abs(this.#ends[index]);
    return { segment: this.#text.slice(from, end), index: from, input: this.#text, ...(this.#granularity === 'word' ? { isWordLike: this.#ends[index] < 0 } : undefined) };
  }
  containing(index = 0) {
    const place = Math.trunc(Number(index)) || 0;
    if (place < 0 || place >= this.#text.length) return undefined;
    return this.#at(this.#ends.findIndex((end) => Math.abs(end) > place));
  }
  *[Symbol.iterator]() { for (let index = 0; index < this.#ends.length; index++) yield this.#at(index); }
}
class Segmenter {
  #options;
  constructor(locales, options = {}) {
    const tag = canonicalList(locales).find((one) => available(known(), one) !== undefined) ?? 'en-US';
    const granularity = options.granularity === undefined ? 'grapheme' : `${options.granularity}`;
    if (!KINDS.includes(granularity)) throw new RangeError(`Value ${granularity} out of range for Intl.Segmenter options property granularity`);
    this.#options = { locale: tag, granularity };
  }
  segment(text) { return new Segments(`${text}`, this.#options.granularity); }
  resolvedOptions() { return { ...this.#options }; }
  static supportedLocalesOf(locales) { return LookupSupportedLocales(known(), canonicalList(locales)); }
}
Object.defineProperty(Segmenter.prototype, Symbol.toStringTag, { value: 'Intl.Segmenter', configurable: true });
module.exports = { Segmenter };
