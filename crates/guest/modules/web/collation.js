// Comparing texts as a reader of a language would: letters by their base first, then accents, then case; digits and signs before letters. Latin,
// Greek and Cyrillic are ordered as CLDR's root does and by the letters that a language counts by themselves; other scripts go by code point.
const { canonicalList, keywords, withoutExtension, available, LookupSupportedLocales } = require('web/locales');

// Letters of their own and the one that each stands behind; of several behind one, the later ones stand further behind.
const OWN = {
  cs: 'c:č d:ď h:ch n:ň r:ř s:š t:ť z:ž', da: 'z:æ z:ø z:å', nb: 'z:æ z:ø z:å', sv: 'z:å z:ä z:ö', fi: 'z:å z:ä z:ö', es: 'n:ñ', hu: 'c:cs d:dz d:dzs g:gy l:ly n:ny o:ö s:sz t:ty u:ü z:zs',
  pl: 'a:ą c:ć e:ę l:ł n:ń o:ó s:ś z:ź z:ż', ro: 'a:ă a:â i:î s:ș t:ț', sk: 'a:ä c:č h:ch o:ô s:š z:ž', tr: 'c:ç g:ğ h:ı o:ö s:ş u:ü',
};
const SIGNS = '_-,;:!?.\'"()[]{}@*/\\&#%`^+<=>|~$';
const tailorings = new Map();
const tailoringOf = (language) => {
  let made = tailorings.get(language);
  if (made === undefined) {
    made = new Map();
    const behind = new Map();
    for (const rule of (OWN[language] ?? '').split(' ').filter(Boolean)) {
      const [base, letter] = rule.split(':');
      const count = (behind.get(base) ?? 0) + 1;
      behind.set(base, count);
      made.set(letter, base.codePointAt(0) + count / 16);
    }
    tailorings.set(language, made);
  }
  return made;
};
const EXPANDED = { 'ß': 'ss', 'æ': 'ae', 'œ': 'oe', 'ø': 'o', 'đ': 'd', 'ł': 'l', 'ħ': 'h', 'ı': 'i', 'þ': 'th', 'ð': 'd' };
const MARK = /\p{M}/u;
const LETTER = /\p{L}/u;
const DIGIT = /\p{Nd}/u;
const CACHED_MAX = 2000;
const SPACE = 1;
const SIGN = 2;
const NUMBER = 3;
const WORD = 4;
// Weights of three levels; the first ones are [group, weight] pairs, flat.
const weigh = (text, own, { numeric, ignorePunctuation }) => {
  const primary = [];
  const secondary = [];
  const tertiary = [];
  const chars = [...text.normalize('NFC')];
  const add = (group, weight, accents, upper) => {
    primary.push(group * 0x200000 + weight);
    secondary.push(accents);
    tertiary.push(upper);
  };
  for (let at = 0; at < chars.length; at++) {
    const char = chars[at];
    const lower = char.toLowerCase();
    const isUpper = lower !== char ? 1 : 0;
    const three = own.size > 0 ? lower + (chars[at + 1] ?? '').toLowerCase() + (chars[at + 2] ?? '').toLowerCase() : '';
    const joined = [three, three.slice(0, 2)].find((it) => it.length > 1 && own.has(it));
    if (joined !== undefined) {
      add(WORD, own.get(joined), '', isUpper);
      at += joined.length - 1;
    } else if (own.has(lower)) add(WORD, own.get(lower), '', isUpper);
    else if (DIGIT.test(char)) {
      let run = char;
      while (numeric && at + 1 < chars.length && DIGIT.test(chars[at + 1])) run += chars[++at];
      const value = run.normalize('NFKC');
      add(NUMBER, Number.isSafeInteger(Number(value)) ? Math.min(Number(value), 0x1fffff) : 0x1fffff, '', 0);
    } else if (MARK.test(char)) {
      if (secondary.length > 0) secondary[secondary.length - 1] += char;
    } else if (LETTER.test(char)) {
      const [base, ...marks] = lower.normalize('NFD');
      const expanded = EXPANDED[base];
      if (expanded === undefined) add(WORD, base.codePointAt(0), marks.join(''), isUpper);
      else for (const letter of expanded) add(WORD, letter.codePointAt(0), `${marks.join('')}\u0300`, isUpper);
    } else if (/\s/.test(char)) { if (!ignorePunctuation) add(SPACE, char.codePointAt(0), '', 0); }
    else if (!ignorePunctuation || !/\p{P}/u.test(char)) {
      const known = SIGNS.indexOf(char);
      add(SIGN, known === -1 ? 0x100 + char.codePointAt(0) : known, '', 0);
    }
  }
  return { primary, secondary, tertiary };
};
const compareLists = (left, right) => {
  const at = left.findIndex((one, index) => one !== right[index]);
  if (at === -1) return left.length === right.length ? 0 : -1;
  return at === right.length || left[at] > right[at] ? 1 : -1;
};
const choice = (value, name, allowed, otherwise) => {
  if (value === undefined) return otherwise;
  const text = String(value);
  if (!allowed.includes(text)) throw new RangeError(`Value ${text} out of range for Intl.Collator options property ${name}`);
  return text;
};
const comparer = (language, options) => {
  const own = tailoringOf(language);
  const kept = new Map();
  const weights = (text) => {
    let made = kept.get(text);
    if (made === undefined) {
      made = weigh(text, own, options);
      if (kept.size >= CACHED_MAX) kept.clear();
      if (text.length < 100) kept.set(text, made);
    }
    return made;
  };
  const upperFirst = options.caseFirst === 'upper' ? -1 : 1;
  return (first, second) => {
    const [left, right] = [`${first}`, `${second}`];
    if (left === right) return 0;
    const [a, b] = [weights(left), weights(right)];
    const byBase = compareLists(a.primary, b.primary);
    if (byBase !== 0 || options.sensitivity === 'base') return byBase;
    if (options.sensitivity !== 'case') {
      const byAccent = compareLists(a.secondary, b.secondary);
      if (byAccent !== 0 || options.sensitivity === 'accent') return byAccent;
    }
    return upperFirst * compareLists(a.tertiary, b.tertiary);
  };
};
const known = () => Object.keys(require('intl/inventory').number);
class Collator {
  #options; #compare;
  constructor(locales, given) {
    const requested = canonicalList(locales);
    const options = given === undefined ? {} : Object(given);
    const tag = requested.find((one) => available(known(), withoutExtension(one)) !== undefined) ?? 'en-US';
    const asked = keywords(tag);
    const usage = choice(options.usage, 'usage', ['sort', 'search'], 'sort');
    this.#options = {
      locale: withoutExtension(tag), usage, sensitivity: choice(options.sensitivity, 'sensitivity', ['base', 'accent', 'case', 'variant'], 'variant'),
      ignorePunctuation: options.ignorePunctuation === undefined ? false : !!options.ignorePunctuation, collation: 'default',
      numeric: options.numeric === undefined ? asked.kn !== undefined && asked.kn !== 'false' : !!options.numeric, caseFirst: choice(options.caseFirst, 'caseFirst', ['upper', 'lower', 'false'], asked.kf ?? 'false'),
    };
  }
  get compare() { return (this.#compare ??= comparer(this.#options.locale.split('-')[0], this.#options)); }
  resolvedOptions() { return { ...this.#options }; }
  static supportedLocalesOf(locales) { return LookupSupportedLocales(known(), canonicalList(locales)); }
}
Object.defineProperty(Collator.prototype, Symbol.toStringTag, { value: 'Intl.Collator', configurable: true });
module.exports = { Collator };
