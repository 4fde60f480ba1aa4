// The global Temporal, of the package temporal-polyfill, over web/zones and Intl.
import { DateTimeFormat as Shell, Temporal, getTemporalBrandingAndSlots as brandOf, toTemporalInstant } from '../node_modules/temporal-polyfill/chunks/classApi-basic.js';
import { noted } from 'web/intl-options';

const toStrings = {};
for (const name of ['Instant', 'ZonedDateTime', 'PlainDateTime', 'PlainDate', 'PlainTime', 'PlainYearMonth', 'PlainMonthDay', 'Duration']) {
  const { prototype } = Temporal[name];
  toStrings[name] = prototype.toString;
  Object.defineProperty(prototype, Symbol.for('nodejs.util.inspect.custom'), { value() { return shown(this); }, writable: true, configurable: true });
}
const textOf = (value) => toStrings[brandOf(value)[0]].call(value);
// As Bun has it: the name, and the text that it can be made of again. One of a class of the user's own says so.
const shown = (value) => {
  const brand = brandOf(value)?.[0];
  if (brand === undefined) return '[object Temporal]';
  const name = value.constructor?.name;
  return `${typeof name === 'string' && name !== '' && name !== brand ? `${name} ` : ''}Temporal.${brand} ${textOf(value)}`;
};
const isTemporal = (value) => brandOf(value) !== undefined;
// Whether two values are told apart, one of which is Temporal's.
const differ = (left, right) => {
  const [one, other] = [brandOf(left)?.[0], brandOf(right)?.[0]];
  return one !== other || (one !== undefined && textOf(left) !== textOf(right));
};
const formatters = new WeakMap();
// What formats values of Temporal as the formatter was asked to.
const formatterOf = (formatter) => {
  let made = formatters.get(formatter);
  if (made === undefined) {
    made = new Shell(formatter.resolvedOptions().locale, { __proto__: null, ...noted(formatter) });
    formatters.set(formatter, made);
  }
  return made;
};
export { Temporal, toTemporalInstant, isTemporal, differ, formatterOf };
