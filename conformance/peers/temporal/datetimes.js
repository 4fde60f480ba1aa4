const p = (...all) => { for (const f of all) { try { console.log(String(f())) } catch (e) { console.log(e.name) } } };
const { PlainDateTime } = Temporal;
const d = PlainDateTime.from('2026-11-26T10:20:30.5');
p(() => d, () => d.add({ hours: 30 }), () => d.subtract({ months: 1, minutes: 90 }), () => d.with({ hour: 0, day: 31 }), () => d.withPlainTime('12:00'), () => d.withPlainTime());
p(() => d.round('day'), () => d.round({ smallestUnit: 'hour', roundingMode: 'floor' }), () => d.round({ smallestUnit: 'minute', roundingIncrement: 30 }), () => d.round({ smallestUnit: 'month' }));
p(() => d.until('2027-03-01T09:00'), () => d.until('2027-03-01T09:00', { largestUnit: 'years' }), () => d.since('2026-11-25T23:00', { largestUnit: 'hours' }), () => d.until('2026-11-27T00:00', { smallestUnit: 'minutes', roundingMode: 'halfEven' }));
p(() => d.toPlainDate(), () => d.toPlainTime(), () => d.toZonedDateTime('Asia/Tokyo'), () => d.toString({ smallestUnit: 'minute' }), () => d.toString({ fractionalSecondDigits: 6 }), () => d.toString({ calendarName: 'never' }));
p(() => PlainDateTime.compare(d, '2026-11-26T10:20:30.4'), () => d.equals('2026-11-26T10:20:30.500'), () => PlainDateTime.from({ year: 2026, month: 1, day: 1, hour: 5 }), () => PlainDateTime.from('2026-11-26'), () => PlainDateTime.from('2026-11-26 10:20'), () => new PlainDateTime(2026, 2, 29));
p(() => d.dayOfWeek, () => d.hoursInDay, () => d.daysInYear, () => d.monthsInYear, () => d.daysInWeek);
