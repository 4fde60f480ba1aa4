// The global Intl. Its formatters are FormatJS's, each loaded when it is first asked for, with the data of its locale.
const { canonicalList } = require('web/locales');

const Intl = {};
const FORMATTERS = {
  NumberFormat: 'web/intl-number', DateTimeFormat: 'web/intl-date', PluralRules: 'web/intl-plural', RelativeTimeFormat: 'web/intl-relative', ListFormat: 'web/intl-list', DisplayNames: 'web/intl-names', DurationFormat: 'web/intl-duration',
  Collator: 'web/collation', Segmenter: 'web/segments', Locale: 'web/locale',
};
const loaders = {
  'web/intl-number': () => require('web/intl-number'), 'web/intl-date': () => require('web/intl-date'), 'web/intl-plural': () => require('web/intl-plural'), 'web/intl-relative': () => require('web/intl-relative'),
  'web/intl-list': () => require('web/intl-list'), 'web/intl-names': () => require('web/intl-names'), 'web/intl-duration': () => require('web/intl-duration'), 'web/collation': () => require('web/collation'), 'web/segments': () => require('web/segments'), 'web/locale': () => require('web/locale'),
};
for (const [name, id] of Object.entries(FORMATTERS)) {
  const settle = (value) => Object.defineProperty(Intl, name, { value, writable: true, configurable: true, enumerable: false });
  Object.defineProperty(Intl, name, {
    get: () => {
      const value = loaders[id]()[name];
      settle(value);
      return value;
    },
    set: settle, configurable: true, enumerable: false,
  });
}
const UNITS = 'acre bit byte celsius centimeter day degree fahrenheit fluid-ounce foot gallon gigabit gigabyte gram hectare hour inch kilobit kilobyte kilogram kilometer liter megabit megabyte meter microsecond mile mile-scandinavian milliliter millimeter millisecond minute month nanosecond ounce percent petabyte pound second stone terabit terabyte week yard year'.split(' ');
const methods = {
  getCanonicalLocales: (locales) => canonicalList(locales),
  supportedValuesOf(key) {
    const { load } = require('web/locale-data');
    switch (`${key}`) {
      case 'calendar': return ['gregory', 'iso8601'];
      case 'collation': return ['emoji', 'eor'];
      case 'currency': return Object.keys(load('number', 'en').currencies).sort();
      case 'numberingSystem': return ['arab', 'deva', 'latn'];
      case 'timeZone': return require('web/zones').zoneNames();
      case 'unit': return UNITS;
      default: throw new RangeError(`Invalid key : ${key}`);
    }
  },
};
for (const [name, value] of Object.entries(methods)) Object.defineProperty(Intl, name, { value, writable: true, configurable: true });
Object.defineProperty(Intl, Symbol.toStringTag, { value: 'Intl', configurable: true });
module.exports = { Intl };
