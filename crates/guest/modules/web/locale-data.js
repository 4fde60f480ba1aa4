// The data of locales, unpacked when a formatter first needs them. A region's are laid over its language's.
const { openStream, stepStream, closeStream } = natives.part('compression');
const { write } = natives.part('bytes');

const CHUNK_BYTES = 65536;
const unpacked = (text) => {
  const packed = new ArrayBuffer(text.length);
  write('latin1', text, packed, 0, text.length);
  const stream = openStream('brotli', 'unpack', 0, 0, 0, new ArrayBuffer(0));
  let whole = '';
  const decoder = new TextDecoder();
  try {
    for (let at = 0, made = CHUNK_BYTES; made === CHUNK_BYTES;) {
      const room = new ArrayBuffer(CHUNK_BYTES);
      const [used, filled] = stepStream(stream, 0, packed, room, [at, packed.byteLength - at, 0, CHUNK_BYTES]);
      at += used;
      made = filled;
      whole += decoder.decode(new Uint8Array(room, 0, made), { stream: true });
    }
  } finally {
    closeStream(stream);
  }
  return JSON.parse(whole);
};
const laid = (under, over) => {
  const made = { ...under };
  for (const key of Object.keys(over)) {
    if (over[key] === null) delete made[key];
    else made[key] = typeof over[key] === 'object' && !Array.isArray(over[key]) && typeof under[key] === 'object' && under[key] !== null ? laid(under[key], over[key]) : over[key];
  }
  return made;
};
// Not kept as a module: it would stay beside what is made of it.
const textOf = (name) => natives.evaluate(name);
const load = (kind, locale) => {
  const parent = require('intl/inventory')[kind][locale];
  const own = unpacked(textOf(`intl/${kind}/${locale}`));
  return parent === null ? own : laid(load(kind, parent), own);
};
const ALIASES = { no: 'nb', iw: 'he', in: 'id', 'zh-Hans': 'zh', 'zh-CN': 'zh', 'zh-Hans-CN': 'zh', 'zh-TW': 'zh-Hant', 'zh-Hant-TW': 'zh-Hant', 'zh-HK': 'zh-Hant-HK', 'en-US': 'en', 'de-DE': 'de', 'fr-FR': 'fr', 'es-ES': 'es', 'it-IT': 'it', 'pt-BR': 'pt', 'ja-JP': 'ja', 'ko-KR': 'ko', 'ru-RU': 'ru', 'nl-NL': 'nl', 'sv-SE': 'sv', 'da-DK': 'da', 'nb-NO': 'nb', 'fi-FI': 'fi', 'pl-PL': 'pl', 'cs-CZ': 'cs', 'sk-SK': 'sk', 'hu-HU': 'hu', 'ro-RO': 'ro', 'bg-BG': 'bg', 'uk-UA': 'uk', 'el-GR': 'el', 'tr-TR': 'tr', 'he-IL': 'he', 'hi-IN': 'hi', 'id-ID': 'id', 'ar-EG': 'ar' };
// Lets a formatter of FormatJS find them: the locale as a request names it is the one that it resolves to.
const register = (Kind, kind) => {
  const known = Object.keys(require('intl/inventory')[kind]);
  for (const locale of [...known, ...Object.keys(ALIASES).filter((it) => known.includes(ALIASES[it]))]) {
    Kind.availableLocales.add(locale);
    Object.defineProperty(Kind.localeData, locale, {
      get() {
        delete Kind.localeData[locale];
        const target = ALIASES[locale];
        if (target !== undefined) Object.defineProperty(Kind.localeData, locale, { value: Kind.localeData[target], writable: true, configurable: true, enumerable: true });
        else {
          const available = new Set(Kind.availableLocales);
          Kind.__addLocaleData({ locale, data: load(kind, locale) });
          for (const added of Kind.availableLocales) if (!available.has(added)) Kind.availableLocales.delete(added);
        }
        return Kind.localeData[locale];
      },
      set(value) { Object.defineProperty(Kind.localeData, locale, { value, writable: true, configurable: true, enumerable: true }); },
      configurable: true, enumerable: true,
    });
  }
};
const registerPlurals = (Kind) => {
  const rules = require('intl/plural');
  for (const language of Object.keys(rules)) {
    const locales = [language, ...Object.keys(ALIASES).filter((it) => it.split('-')[0] === language || ALIASES[it] === language), ...Object.keys(require('intl/inventory').number).filter((it) => it.startsWith(`${language}-`))];
    for (const locale of locales) {
      Kind.availableLocales.add(locale);
      Object.defineProperty(Kind.localeData, locale, {
        get() {
          let data;
          rules[language]({ PluralRules: { __addLocaleData: (it) => { data = it.data; } } });
          Object.defineProperty(Kind.localeData, locale, { value: data, writable: true, configurable: true, enumerable: true });
          return data;
        },
        configurable: true, enumerable: true,
      });
    }
  }
};
module.exports = { register, registerPlurals, unpacked, textOf, load };
