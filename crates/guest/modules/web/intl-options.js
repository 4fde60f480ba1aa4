// What formatters of dates were asked for, beside what they made of it: a value of Temporal is formatted by the same wishes with other defaults.
const NAMES = [
  'localeMatcher', 'calendar', 'numberingSystem', 'hour12', 'hourCycle', 'timeZone', 'weekday', 'era', 'year', 'month', 'day', 'dayPeriod', 'hour', 'minute', 'second', 'fractionalSecondDigits', 'timeZoneName',
  'formatMatcher', 'dateStyle', 'timeStyle',
];
const wishes = new WeakMap();
// Each is read once.
const note = (formatter, options) => {
  if (options === undefined || options === null) return options;
  const noted = Object.create(null);
  for (const name of NAMES) {
    const value = Object(options)[name];
    if (value !== undefined) noted[name] = value;
  }
  wishes.set(formatter, noted);
  return noted;
};
const noted = (formatter) => wishes.get(formatter);
module.exports = { note, noted };
