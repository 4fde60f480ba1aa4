// Names of locales: what is well formed, its usual spelling, and which of those that are there a request means.
const invalid = (tag) => new RangeError(`Incorrect locale information provided`, { cause: tag });
const LANGUAGE = /^(?:[a-z]{2,3}|[a-z]{5,8})(?:-[a-z]{4})?(?:-(?:[a-z]{2}|[0-9]{3}))?(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*(?:-[0-9a-wyz](?:-[a-z0-9]{2,8})+)*(?:-x(?:-[a-z0-9]{1,8})+)?$/;
const RENAMED = { iw: 'he', in: 'id', ji: 'yi', mo: 'ro', 'zh-cmn': 'cmn' };
const canonical = (tag) => {
  const lower = tag.toLowerCase();
  if (!LANGUAGE.test(lower)) throw invalid(tag);
  let extension = false;
  const parts = lower.split('-').map((part, at, all) => {
    if (part.length === 1) extension = true;
    if (at === 0) return RENAMED[part] ?? part;
    if (extension || all[at - 1].length === 1) return part;
    return part.length === 4 && /^[a-z]/.test(part) ? `${part[0].toUpperCase()}${part.slice(1)}` : part.length === 2 || /^[0-9]{3}$/.test(part) ? part.toUpperCase() : part;
  });
  return parts.join('-').replace(/-true(?=-|$)/, '');
};
const canonicalList = (locales) => {
  if (locales === undefined) return [];
  const given = typeof locales === 'string' || locales?.[Symbol.toStringTag] === 'Intl.Locale' ? [locales] : Array.from(Object(locales));
  const found = [];
  for (const one of given) {
    if (typeof one !== 'string' && (typeof one !== 'object' || one === null)) throw new TypeError('Language ID should be string or object.');
    const tag = canonical(String(one));
    if (!found.includes(tag)) found.push(tag);
  }
  return found;
};
const withoutExtension = (tag) => tag.replace(/-(?:[0-9a-wy-z])-.*$/, '');
// Regions that write as another locale does rather than as their language's first.
const PARENTS = { 'es-': 'es-419', 'en-': 'en-GB' };
const REGIONAL = { es: /^es-(?:BO|CL|CO|CR|CU|DO|EC|GT|HN|NI|PA|PE|PR|PY|SV|UY|VE)$/, en: /^en-(?:001|150|BE|DE|DK|FI|HK|IL|KE|MY|NL|NG|PK|SE|SG|AE)$/ };
const available = (known, tag) => {
  const has = (name) => (Array.isArray(known) ? known.includes(name) : known.has(name));
  const language = tag.split('-')[0];
  if (REGIONAL[language]?.test(tag) && has(PARENTS[`${language}-`])) return PARENTS[`${language}-`];
  for (let at = tag; at !== '';) {
    if (has(at)) return at;
    const end = at.lastIndexOf('-');
    at = end < 0 ? '' : at.slice(0, end);
  }
  return undefined;
};
const keywords = (tag) => {
  const found = /-u((?:-[a-z0-9]{2,8})+)/.exec(tag);
  const made = {};
  if (found === null) return made;
  let key;
  for (const part of found[1].slice(1).split('-')) {
    if (part.length === 2) {
      key = part;
      made[key] = '';
    } else if (key !== undefined) made[key] += made[key] === '' ? part : `-${part}`;
  }
  return made;
};
const ResolveLocale = (known, requested, options, keys, data, getDefault) => {
  let tag;
  let found;
  for (const one of requested) {
    found = available(known, withoutExtension(one));
    if (found !== undefined) {
      tag = one;
      break;
    }
  }
  found ??= available(known, getDefault()) ?? getDefault();
  const asked = tag === undefined ? {} : keywords(tag);
  const result = { locale: found, dataLocale: found };
  let extension = '';
  for (const key of keys) {
    const choices = data[found]?.[key];
    let value = Array.isArray(choices) ? choices[0] ?? null : null;
    if (asked[key] !== undefined) {
      const wanted = asked[key] === '' ? 'true' : asked[key];
      if (choices?.includes(wanted)) {
        value = wanted;
        extension += wanted === 'true' ? `-${key}` : `-${key}-${wanted}`;
      }
    }
    const option = options[key];
    if (option !== undefined && option !== value && choices?.includes(option)) {
      value = option;
      extension = extension.replace(new RegExp(`-${key}(?:-[a-z0-9]{3,8})*`), '');
    }
    result[key] = value;
  }
  if (extension !== '') result.locale = `${found}-u${extension}`;
  return result;
};
const LookupSupportedLocales = (known, requested) => requested.filter((tag) => available(known, withoutExtension(tag)) !== undefined);
module.exports = { canonical, canonicalList, keywords, withoutExtension, available, ResolveLocale, LookupSupportedLocales, match: (requested, known, otherwise) => requested.map((tag) => available(known, tag)).find((it) => it !== undefined) ?? otherwise };
