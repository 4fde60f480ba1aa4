// What the language's own methods say in a locale: `toLocaleString` and its family. What a session's own locale, en-US, writes most is made here.
const { canonicalList } = require('web/locales');

const isOwn = (locales, options) => options === undefined && (locales === undefined || locales === 'en-US' || locales === 'en');
const FRACTION_DIGITS = 3;
const grouped = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ',');
const plainNumber = (value) => {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value < 0 ? '-∞' : '∞';
  const size = Math.abs(value);
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  if (size >= 1e21) return undefined;
  // As decimal digits say it: a half is rounded away from zero.
  const exact = String(size);
  if (exact.includes('e')) return size < 1e-6 ? `${sign}0` : undefined;
  const [whole, fraction = ''] = exact.split('.');
  if (fraction.length <= FRACTION_DIGITS) return `${sign}${grouped(whole)}${fraction === '' ? '' : `.${fraction}`}`;
  const rounded = (BigInt(whole + fraction.slice(0, FRACTION_DIGITS)) + (fraction[FRACTION_DIGITS] >= '5' ? 1n : 0n)).toString().padStart(FRACTION_DIGITS + 1, '0');
  const rest = rounded.slice(-FRACTION_DIGITS).replace(/0+$/, '');
  return `${sign}${grouped(rounded.slice(0, -FRACTION_DIGITS))}${rest === '' ? '' : `.${rest}`}`;
};
const formatters = new Map();
const KEPT_MAX = 20;
const formatter = (kind, locales, options) => {
  const key = options === undefined || Object.values(options).every((it) => typeof it !== 'object') ? JSON.stringify([kind, locales, options]) : undefined;
  let made = key === undefined ? undefined : formatters.get(key);
  if (made === undefined) {
    made = new Intl[kind](locales, options);
    if (formatters.size >= KEPT_MAX) formatters.clear();
    if (key !== undefined) formatters.set(key, made);
  }
  return made;
};
const two = (value) => `${value}`.padStart(2, '0');
const plainDate = (date) => `${date.getMonth() + 1}/${date.getDate()}/${date.getFullYear()}`;
const plainTime = (date) => `${date.getHours() % 12 || 12}:${two(date.getMinutes())}:${two(date.getSeconds())} ${date.getHours() < 12 ? 'AM' : 'PM'}`;
const DATE = ['weekday', 'year', 'month', 'day'];
const TIME = ['dayPeriod', 'hour', 'minute', 'second', 'fractionalSecondDigits'];
const withDefaults = (given, required, defaults) => {
  const options = given === undefined ? Object.create(null) : { ...Object(given) };
  const fields = required === 'any' ? [...DATE, ...TIME] : required === 'date' ? DATE : TIME;
  if (required === 'date' && options.timeStyle !== undefined) throw new TypeError('Invalid option : timeStyle');
  if (required === 'time' && options.dateStyle !== undefined) throw new TypeError('Invalid option : dateStyle');
  if (fields.some((name) => options[name] !== undefined) || options.dateStyle !== undefined || options.timeStyle !== undefined) return options;
  if (defaults !== 'time') for (const name of ['year', 'month', 'day']) options[name] = 'numeric';
  if (defaults !== 'date') for (const name of ['hour', 'minute', 'second']) options[name] = 'numeric';
  return options;
};
// Years outside of four digits are FormatJS's to write.
const usual = (date) => date.getFullYear() > 999 && date.getFullYear() < 10000;
const date = (value, locales, options, kind) => {
  if (Number.isNaN(value.getTime())) return 'Invalid Date';
  if (isOwn(locales, options) && usual(value)) return kind === 'date' ? plainDate(value) : kind === 'time' ? plainTime(value) : `${plainDate(value)}, ${plainTime(value)}`;
  return formatter('DateTimeFormat', locales, withDefaults(options, kind, kind === 'any' ? 'all' : kind)).format(value);
};
const number = (value, locales, options) => {
  const own = isOwn(locales, options) ? (typeof value === 'bigint' ? `${value < 0n ? '-' : ''}${grouped(`${value < 0n ? -value : value}`)}` : plainNumber(value)) : undefined;
  return own ?? formatter('NumberFormat', locales, options).format(value);
};
const compare = (left, right, locales, options) => formatter('Collator', locales, options).compare(left, right);
const TURKIC = /^(?:tr|az)(?:-|$)/;
const toCase = (text, locales, upper) => {
  const [tag = 'en-US'] = canonicalList(locales);
  if (TURKIC.test(tag)) return upper ? text.replace(/i/g, 'İ').toUpperCase() : text.replace(/İ/g, 'i').replace(/I\u0307/g, 'i').replace(/I/g, 'ı').toLowerCase();
  return upper ? text.toUpperCase() : text.toLowerCase();
};
const textOf = (value, name) => {
  if (value === undefined || value === null) throw new TypeError(`String.prototype.${name} called on null or undefined`);
  return `${value}`;
};
const dateOf = (value) => new Date(Date.prototype.getTime.call(value));
module.exports = {
  toLocaleString(value, [locales, options]) {
    if (typeof value === 'number' || typeof value === 'bigint') return number(value, locales, options);
    const kind = natives.kindOf(Object(value));
    if (kind === 'date') return date(dateOf(value), locales, options, 'any');
    return number(kind === 'bigint' ? BigInt.prototype.valueOf.call(value) : Number.prototype.valueOf.call(value), locales, options);
  },
  toLocaleDateString: (value, [locales, options]) => date(dateOf(value), locales, options, 'date'),
  toLocaleTimeString: (value, [locales, options]) => date(dateOf(value), locales, options, 'time'),
  localeCompare: (value, [that, locales, options]) => compare(textOf(value, 'localeCompare'), `${that}`, locales, options),
  toLocaleLowerCase: (value, [locales]) => toCase(textOf(value, 'toLocaleLowerCase'), locales, false),
  toLocaleUpperCase: (value, [locales]) => toCase(textOf(value, 'toLocaleUpperCase'), locales, true),
};
