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
// Zones as rows of the times at which they change, each after the one before it: `NAME|OFFSET|SECONDS,OFFSET|…` in base 36, with a `d` where clocks
// are forward; `NAME=OTHER` has the same rows. All of it is two fifths of what FormatJS's own form takes.
const zoneRows = (data) => {
  const offsets = data.offsets.split('|').map((it) => parseInt(it, 36));
  const texts = new Map();
  const lines = data.zones.map((zone) => {
    const [name, ...changes] = zone.split('|');
    const rows = [];
    for (const change of changes) {
      const [time, , offset, forward] = change.split(',');
      const before = rows.at(-1);
      if (time === 'NaN' || (before !== undefined && before.offset === offsets[offset] && before.forward === forward)) continue;
      rows.push({ time: time === '' ? 0 : parseInt(time, 36), offset: offsets[offset], forward });
    }
    const text = rows.map((row, at) => `${at === 0 ? '' : `${(row.time - rows[at - 1].time).toString(36)},`}${row.offset.toString(36)}${row.forward === '1' ? 'd' : ''}`).join('|');
    if (texts.has(text)) return `${name}=${texts.get(text)}`;
    texts.set(text, name);
    return `${name}|${text}`;
  });
  return `\n${lines.join('\n')}\n`;
};
// Other names of zones, as FormatJS knows them.
const zoneLinks = (folder, names) => {
  const source = readFileSync(join(folder, 'intl-datetimeformat/index.js'), 'utf8');
  const links = new Function(`return ${/var links_default = (\{[^}]*\})/.exec(source)[1]}`)();
  const utc = (name) => (name === 'Etc/UTC' || name === 'Etc/GMT' ? 'UTC' : name);
  return Object.entries(links).filter(([name, target]) => /^[A-Za-z]/.test(name) && name !== 'UTC' && (utc(target) === 'UTC' || names.has(target))).map(([name, target]) => [name, utc(target)]);
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
  const source = readFileSync(join(folder, 'intl-datetimeformat/add-all-tz.js'), 'utf8');
  let data;
  new Function('Intl', source)({ DateTimeFormat: { __addTZData: (it) => { data = it; } } });
  // FormatJS leaves one out to which others are links: an offset of -968 seconds until 1912, then none.
  const missing = { name: 'Africa/Abidjan', rows: `|-qw|${(-1830383032).toString(36)},0` };
  const names = new Set([...data.zones.map((zone) => zone.split('|')[0]), missing.name]);
  const links = new Map(zoneLinks(folder, names));
  const told = [...names].filter((name) => name !== 'UTC' && !links.has(name)).sort();
  made.push(['intl/zone-names', `module.exports=${JSON.stringify(`|${[...told, 'UTC', ...[...links].map(([name, target]) => `${name}=${target}`)].join('|')}|`)}`]);
  made.push(['intl/zones', `module.exports=${packed(JSON.stringify(`${zoneRows(data)}${missing.name}${missing.rows}\n`))}`]);
  made.push(['intl/inventory', `module.exports=${JSON.stringify(inventory)}`]);
  return made;
};
