const p = (...all) => { for (const f of all) { try { console.log(String(f())) } catch (e) { console.log(e.name) } } };
p(() => Object.prototype.toString.call(Temporal.Now), () => Temporal.Now[Symbol.toStringTag], () => Temporal.Now.timeZoneId());
p(() => Math.abs(Temporal.Now.instant().epochMilliseconds - Date.now()) < 60000, () => Temporal.Now.plainDateISO() instanceof Temporal.PlainDate, () => Temporal.Now.zonedDateTimeISO('Asia/Tokyo').offset, () => Temporal.Now.plainTimeISO('Europe/Berlin').calendarId, () => Temporal.Now.plainDateTimeISO('Nowhere/Land'));
p(() => Reflect.ownKeys(Temporal).filter((it) => typeof it === 'string').sort().join());
for (const name of ['Instant', 'ZonedDateTime', 'PlainDateTime', 'PlainDate', 'PlainTime', 'PlainYearMonth', 'PlainMonthDay', 'Duration']) {
  p(() => Temporal[name].name, () => Temporal[name].length, () => Object.prototype.toString.call(Temporal[name].prototype), () => Temporal[name].prototype.toString.call({}), () => Temporal[name].prototype.valueOf.call({}), () => class extends Temporal[name] {}.name);
}
