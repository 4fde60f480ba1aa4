const p = (...all) => { for (const f of all) { try { console.log(String(f())) } catch (e) { console.log(e.name) } } };
const { PlainTime } = Temporal;
const t = PlainTime.from('10:20:30.123456789');
p(() => t, () => t.hour, () => t.millisecond, () => t.microsecond, () => t.nanosecond);
p(() => t.add({ hours: 20 }), () => t.add('PT1H59M59.999S'), () => t.subtract({ nanoseconds: 1 }), () => t.with({ hour: 25 }), () => t.with({ hour: 25 }, { overflow: 'reject' }), () => t.with({ minute: 5 }));
p(() => t.round('hour'), () => t.round({ smallestUnit: 'minute', roundingIncrement: 15 }), () => t.round({ smallestUnit: 'second', roundingMode: 'ceil' }), () => t.round({ smallestUnit: 'minute', roundingIncrement: 7 }), () => t.round({ smallestUnit: 'millisecond', roundingMode: 'trunc' }));
p(() => t.until('12:00'), () => t.since('09:00', { largestUnit: 'minutes' }), () => t.until('10:20', { smallestUnit: 'seconds' }), () => t.until('23:59:59', { smallestUnit: 'hour', roundingMode: 'expand' }));
p(() => t.toString({ smallestUnit: 'minute' }), () => t.toString({ fractionalSecondDigits: 3 }), () => t.toString({ fractionalSecondDigits: 0, roundingMode: 'halfExpand' }), () => t.toJSON(), () => PlainTime.from('24:00'), () => PlainTime.from('23:59:60'));
p(() => PlainTime.compare('10:00', '09:59'), () => t.equals(t), () => PlainTime.from({ hour: 3 }), () => PlainTime.from({}), () => new PlainTime(), () => new PlainTime(24), () => PlainTime.from('T1020'), () => PlainTime.from('2026-11-26T01:02'), () => PlainTime.from('10:20+01:00'), () => PlainTime.from('10:20Z'));
