import { DateTimeFormat } from '@formatjs/intl-datetimeformat';
import { register } from 'web/locale-data';

register(DateTimeFormat, 'date');
DateTimeFormat.__defaultLocale = 'en-US';
export { DateTimeFormat };

// What a session's clock says; zones come with the first formatter.
DateTimeFormat.__setDefaultTimeZone('UTC');
const { unpacked, textOf } = require('web/locale-data');
const zoneNames = require('intl/zone-names');
const zones = Object.create(null);
// A zone is unpacked when a time of it is first told.
const zoneOf = (name) => {
  const { abbrvs, offsets, zones: all } = unpacked(textOf('intl/zones'));
  DateTimeFormat.__addTZData({ abbrvs, offsets, zones: all.filter((zone) => zone.startsWith(`${name}|`)) });
  const found = DateTimeFormat.tzData[name];
  DateTimeFormat.tzData = zones;
  return found;
};
for (const name of zoneNames) {
  Object.defineProperty(zones, name, {
    get: () => {
      const value = zoneOf(name);
      Object.defineProperty(zones, name, { value, enumerable: true, configurable: true });
      return value;
    },
    enumerable: true, configurable: true,
  });
}
DateTimeFormat.tzData = zones;
// Node writes a plain space where CLDR has a narrow one that does not break.
const spaced = (text) => text.replace(/\u202f/g, ' ');
for (const name of ['formatToParts', 'formatRangeToParts']) {
  const original = DateTimeFormat.prototype[name];
  Object.defineProperty(DateTimeFormat.prototype, name, { value: { [name](...args) { return original.apply(this, args).map((part) => ({ ...part, value: spaced(part.value) })); } }[name], writable: true, configurable: true });
}
const range = DateTimeFormat.prototype.formatRange;
Object.defineProperty(DateTimeFormat.prototype, 'formatRange', { value: function formatRange(...args) { return spaced(range.apply(this, args)); }, writable: true, configurable: true });
const { get } = Object.getOwnPropertyDescriptor(DateTimeFormat.prototype, 'format');
const bound = new WeakMap();
Object.defineProperty(DateTimeFormat.prototype, 'format', {
  get() {
    let made = bound.get(this);
    if (made === undefined) {
      const original = get.call(this);
      made = (date) => spaced(original(date));
      bound.set(this, made);
    }
    return made;
  },
  configurable: true,
});
