// The locale data of FormatJS (CLDR's), trimmed and packed: a module each for what one locale needs of one formatter.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';

// Languages, and regions of them that write otherwise; of those only the difference is kept.
export const LOCALES = {
  ar: [], bg: [], cs: [], da: [], de: ['de-AT', 'de-CH'], el: [], en: ['en-AU', 'en-CA', 'en-GB', 'en-IE', 'en-IN', 'en-NZ', 'en-ZA'], es: ['es-419', 'es-AR', 'es-MX', 'es-US'], fi: [], fr: ['fr-BE', 'fr-CA', 'fr-CH'],
  he: [], hi: [], hu: [], id: [], it: ['it-CH'], ja: [], ko: [], nb: [], nl: ['nl-BE'], pl: [], pt: ['pt-PT'], ro: [], ru: [], sk: [], sv: [], tr: [], uk: [], zh: ['zh-Hant', 'zh-Hant-HK'],
};
const KINDS = { number: ['intl-numberformat', 'NumberFormat'], date: ['intl-datetimeformat', 'DateTimeFormat'], plural: ['intl-pluralrules', 'PluralRules'], relative: ['intl-relativetimeformat', 'RelativeTimeFormat'], list: ['intl-listformat', 'ListFormat'], names: ['intl-displaynames', 'DisplayNames'] };
// Currencies that are spelled out; of others there is the code and, where they have one, the symbol.
const CURRENCIES = new Set('AED ARS AUD BGN BRL BTC CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR JPY KES KRW MAD MXN MYR NGN NOK NZD PEN PHP PKR PLN RON RSD RUB SAR SEK SGD THB TRY TWD UAH USD VND XAF XOF ZAR'.split(' '));
const ZONES = new Set('Africa/Cairo Africa/Johannesburg Africa/Lagos Africa/Nairobi America/Anchorage America/Argentina/Buenos_Aires America/Bogota America/Buenos_Aires America/Chicago America/Denver America/Halifax America/Los_Angeles America/Mexico_City America/New_York America/Phoenix America/Sao_Paulo America/Toronto America/Vancouver Asia/Bangkok Asia/Calcutta Asia/Dhaka Asia/Dubai Asia/Hong_Kong Asia/Istanbul Asia/Jakarta Asia/Jerusalem Asia/Karachi Asia/Kolkata Asia/Manila Asia/Riyadh Asia/Seoul Asia/Shanghai Asia/Singapore Asia/Taipei Asia/Tokyo Australia/Adelaide Australia/Brisbane Australia/Melbourne Australia/Perth Australia/Sydney Europe/Amsterdam Europe/Athens Europe/Berlin Europe/Brussels Europe/Budapest Europe/Dublin Europe/Helsinki Europe/Istanbul Europe/Kiev Europe/Kyiv Europe/Lisbon Europe/London Europe/Madrid Europe/Moscow Europe/Oslo Europe/Paris Europe/Prague Europe/Rome Europe/Stockholm Europe/Vienna Europe/Warsaw Europe/Zurich Pacific/Auckland Pacific/Honolulu UTC'.split(' '));

// What stands between a long date and its time, which FormatJS does not take from CLDR.
const AT = { ar: ' في ', bg: ' в ', cs: ' v ', da: ' kl. ', de: ' um ', el: ' στις ', en: ' at ', es: ' a las ', fi: ' klo ', fr: ' à ', he: ' בשעה ', hu: ' ', id: ' pukul ', it: ' alle ore ', ja: ' ', ko: ' ', nb: ' kl. ', nl: ' om ', pl: ' ', pt: ' às ', ro: ' la ', ru: ' в ', sk: ' o ', sv: ' kl. ', tr: ' ', uk: ' о ', zh: ' ' };
const withAt = (data, locale) => {
  const at = AT[locale.split('-')[0]];
  if (at === undefined) return data.dateTimeFormat;
  const glue = `{1}${at.replace(/\S+/g, "'$&'")}{0}`;
  return { ...data.dateTimeFormat, full: glue, long: glue };
};
// Zones with what changes from 1970 on; who asks for an earlier time gets what was in force then.
const zonesFrom = (zone) => {
  const [name, ...changes] = zone.split('|');
  const times = changes.map((change) => (change.startsWith(',') ? -Infinity : parseInt(change, 36)));
  const first = times.findLastIndex((time) => time <= 0);
  return [name, ...changes.slice(Math.max(first, 0)).map((change, at) => (at === 0 ? change.slice(change.indexOf(',')) : change))].join('|');
};
const read = (folder, kind, locale) => {
  const [name, Kind] = KINDS[kind];
  const path = join(folder, name, 'locale-data', `${locale}.js`);
  if (!existsSync(path)) return undefined;
  let found;
  new Function('Intl', readFileSync(path, 'utf8'))({ [Kind]: { __addLocaleData: (data) => { found = data; } } });
  return found;
};
const trims = {
  number: (data) => {
    const { currencies } = data;
    for (const [code, currency] of Object.entries(currencies)) {
      if (CURRENCIES.has(code)) continue;
      if (currency.symbol === code && currency.narrow === code) delete currencies[code];
      else currency.displayName = { other: code };
    }
    return data;
  },
  date: (data, locale) => ({
    ...data, dateTimeFormat: withAt(data, locale), intervalFormats: Object.fromEntries(Object.entries(data.intervalFormats).filter(([skeleton]) => /^[A-Za-z]+$/.test(skeleton))), ca: ['gregory', 'iso8601'], formats: { gregory: data.formats.gregory }, calendarData: undefined, timeZoneName: Object.fromEntries(Object.entries(data.timeZoneName).filter(([zone]) => ZONES.has(zone))),
  }),
  names: (data) => ({ ...data, types: { ...data.types, language: { dialect: data.types.language.dialect, standard: { long: {}, short: {}, narrow: {} } } } }),
};
const isPlain = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
// What must be laid over `from` to have `to`; null takes a key away.
const difference = (from, to) => {
  const made = {};
  for (const key of Object.keys(from)) if (!(key in to)) made[key] = null;
  for (const key of Object.keys(to)) {
    if (isPlain(from[key]) && isPlain(to[key])) {
      const inner = difference(from[key], to[key]);
      if (Object.keys(inner).length > 0) made[key] = inner;
    } else if (JSON.stringify(from[key]) !== JSON.stringify(to[key])) made[key] = to[key];
  }
  return made;
};
const packed = (value) => {
  const bytes = brotliCompressSync(Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)), { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 22 } });
  return JSON.stringify(bytes.toString('latin1')).replace(/[\u2028\u2029]/g, (it) => `\\u${it.charCodeAt(0).toString(16)}`);
};
const json = (value) => JSON.parse(JSON.stringify(value));

// Each module's name and the text of its script.
export const intlModules = (folder) => {
  const made = [];
  const inventory = {};
  for (const kind of Object.keys(KINDS)) {
    if (kind === 'plural') continue;
    inventory[kind] = {};
    for (const [language, regions] of Object.entries(LOCALES)) {
      const load = (locale) => {
        const found = read(folder, kind, locale);
        return found === undefined ? undefined : json((trims[kind] ?? ((data) => data))(found.data, locale));
      };
      const root = load(language) ?? load(language === 'nb' ? 'no' : language);
      if (root === undefined) throw new Error(`FormatJS has no ${kind} of ${language}`);
      made.push([`intl/${kind}/${language}`, `module.exports=${packed(root)}`]);
      inventory[kind][language] = null;
      for (const region of regions) {
        const data = load(region);
        if (data === undefined) continue;
        const parent = region === 'zh-Hant-HK' && inventory[kind]['zh-Hant'] !== undefined ? 'zh-Hant' : language;
        made.push([`intl/${kind}/${region}`, `module.exports=${packed(difference(parent === language ? root : load(parent), data))}`]);
        inventory[kind][region] = parent;
      }
    }
  }
  // Plural rules are code.
  const plural = Object.keys(LOCALES).map((language) => {
    const path = [language, language === 'nb' ? 'no' : language].map((name) => join(folder, KINDS.plural[0], 'locale-data', `${name}.js`)).find(existsSync);
    return `${JSON.stringify(language)}:function(Intl){${readFileSync(path, 'utf8')}}`;
  });
  made.push(['intl/plural', `module.exports={${plural.join(',')}}`]);
  const source = readFileSync(join(folder, 'intl-datetimeformat/add-golden-tz.js'), 'utf8');
  let data;
  new Function('Intl', source)({ DateTimeFormat: { __addTZData: (it) => { data = it; } } });
  const zones = data.zones.map(zonesFrom);
  made.push(['intl/zone-names', `module.exports=${JSON.stringify(zones.map((zone) => zone.split('|')[0]))}`]);
  made.push(['intl/zones', `module.exports=${packed({ ...data, zones })}`]);
  made.push(['intl/inventory', `module.exports=${JSON.stringify(inventory)}`]);
  return made;
};
