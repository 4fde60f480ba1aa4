// Intl.Locale: the parts of a locale's name.
const { canonical, keywords, withoutExtension } = require('web/locales');

const LIKELY = { ar: 'Arab-EG', bg: 'Cyrl-BG', cs: 'Latn-CZ', da: 'Latn-DK', de: 'Latn-DE', el: 'Grek-GR', en: 'Latn-US', es: 'Latn-ES', fi: 'Latn-FI', fr: 'Latn-FR', he: 'Hebr-IL', hi: 'Deva-IN', hu: 'Latn-HU', id: 'Latn-ID', it: 'Latn-IT', ja: 'Jpan-JP', ko: 'Kore-KR', nb: 'Latn-NO', no: 'Latn-NO', nl: 'Latn-NL', pl: 'Latn-PL', pt: 'Latn-BR', ro: 'Latn-RO', ru: 'Cyrl-RU', sk: 'Latn-SK', sv: 'Latn-SE', tr: 'Latn-TR', uk: 'Cyrl-UA', zh: 'Hans-CN', vi: 'Latn-VN', th: 'Thai-TH', fa: 'Arab-IR' };
const HANT = ['TW', 'HK', 'MO'];
const KEYS = { calendar: 'ca', collation: 'co', hourCycle: 'hc', caseFirst: 'kf', numberingSystem: 'nu' };
const partsOf = (name) => {
  const found = /^([a-z]+)(?:-([A-Z][a-z]{3}))?(?:-([A-Z]{2}|\d{3}))?((?:-.*)?)$/.exec(name);
  return { language: found[1], script: found[2], region: found[3], rest: found[4] };
};
const joined = (...parts) => parts.filter((part) => part !== undefined && part !== '').join('-');
class Locale {
  #name; #parts; #keywords;
  constructor(tag, options = {}) {
    if (typeof tag !== 'string' && (typeof tag !== 'object' || tag === null)) throw new TypeError('First argument to Intl.Locale constructor can\'t be empty or missing');
    const given = canonical(String(tag));
    const base = partsOf(withoutExtension(given));
    for (const name of ['language', 'script', 'region']) if (options[name] !== undefined) base[name] = String(options[name]);
    const words = keywords(given);
    for (const [name, key] of Object.entries(KEYS)) if (options[name] !== undefined) words[key] = String(options[name]);
    if (options.numeric !== undefined) words.kn = options.numeric ? '' : 'false';
    const bare = canonical(joined(base.language, base.script, base.region) + base.rest);
    const extension = Object.keys(words).sort().map((key) => joined(key, words[key])).join('-');
    this.#parts = partsOf(bare);
    this.#keywords = words;
    this.#name = extension === '' ? bare : `${bare}-u-${extension}`;
  }
  get baseName() { return withoutExtension(this.#name); }
  get language() { return this.#parts.language; }
  get script() { return this.#parts.script; }
  get region() { return this.#parts.region; }
  get calendar() { return this.#keywords.ca; }
  get collation() { return this.#keywords.co; }
  get hourCycle() { return this.#keywords.hc; }
  get caseFirst() { return this.#keywords.kf; }
  get numberingSystem() { return this.#keywords.nu; }
  get numeric() { return this.#keywords.kn !== undefined && this.#keywords.kn !== 'false'; }
  #with(language, script, region) { return new Locale(joined(language, script, region) + this.#name.slice(this.baseName.length)); }
  maximize() {
    const { language, script, region } = this.#parts;
    const [likelyScript, likelyRegion] = (LIKELY[language] ?? '').split('-');
    const chinese = language === 'zh' && script === undefined && HANT.includes(region) ? 'Hant' : undefined;
    const place = region ?? (language === 'zh' && script === 'Hant' ? 'TW' : likelyRegion);
    return this.#with(language, script ?? chinese ?? likelyScript, place);
  }
  minimize() {
    const whole = this.maximize();
    const { language } = whole;
    for (const [script, region] of [[undefined, undefined], [undefined, whole.region], [whole.script, undefined]]) {
      const made = this.#with(language, script, region);
      if (made.maximize().baseName === whole.baseName) return made;
    }
    return whole;
  }
  toString() { return this.#name; }
}
Object.defineProperty(Locale.prototype, Symbol.toStringTag, { value: 'Intl.Locale', configurable: true });
module.exports = { Locale };
