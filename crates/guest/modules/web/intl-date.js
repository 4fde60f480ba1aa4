import { DateTimeFormat } from '@formatjs/intl-datetimeformat';
import { register } from 'web/locale-data';

register(DateTimeFormat, 'date');
DateTimeFormat.__defaultLocale = 'en-US';
export { DateTimeFormat };

// What a session's clock says. Zones are web/zones's.
DateTimeFormat.__setDefaultTimeZone('UTC');
const ofTemporal = (value) => typeof value === 'object' && value !== null && natives.isLoaded('web/temporal') && require('web/temporal').isTemporal(value);
const formatterOf = (own) => require('web/temporal').formatterOf(own);
// Node writes a plain space where CLDR has a narrow one that does not break.
const spaced = (text) => text.replace(/\u202f/g, ' ');
for (const name of ['formatToParts', 'formatRangeToParts']) {
  const original = DateTimeFormat.prototype[name];
  Object.defineProperty(DateTimeFormat.prototype, name, {
    value: {
      [name](...args) {
        if (args.some(ofTemporal)) return formatterOf(this)[name](...args);
        return original.apply(this, args).map((part) => ({ ...part, value: spaced(part.value) }));
      },
    }[name],
    writable: true, configurable: true,
  });
}
const range = DateTimeFormat.prototype.formatRange;
Object.defineProperty(DateTimeFormat.prototype, 'formatRange', {
  value: function formatRange(...args) { return args.some(ofTemporal) ? formatterOf(this).formatRange(...args) : spaced(range.apply(this, args)); },
  writable: true, configurable: true,
});
const { get } = Object.getOwnPropertyDescriptor(DateTimeFormat.prototype, 'format');
const bound = new WeakMap();
Object.defineProperty(DateTimeFormat.prototype, 'format', {
  get() {
    let made = bound.get(this);
    if (made === undefined) {
      const original = get.call(this);
      made = (date) => (ofTemporal(date) ? formatterOf(this).format(date) : spaced(original(date)));
      bound.set(this, made);
    }
    return made;
  },
  configurable: true,
});
