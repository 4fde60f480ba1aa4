const p = (...all) => { for (const f of all) { try { console.log(String(f())) } catch (e) { console.log(e.name) } } };
const date = Temporal.PlainDate.from('2026-11-26');
const time = Temporal.PlainTime.from('15:04:05');
const both = date.toPlainDateTime(time);
const zoned = both.toZonedDateTime('Europe/Berlin');
for (const locale of ['en-US', 'de-DE', 'fr-FR', 'en-GB']) {
  p(() => date.toLocaleString(locale), () => date.toLocaleString(locale, { dateStyle: 'long' }), () => date.toLocaleString(locale, { weekday: 'long' }), () => date.toLocaleString(locale, { month: 'short', day: 'numeric' }));
  p(() => time.toLocaleString(locale), () => time.toLocaleString(locale, { hour: 'numeric', minute: '2-digit' }), () => both.toLocaleString(locale), () => zoned.toInstant().toLocaleString(locale, { timeZone: 'America/New_York' }));
  p(() => new Intl.DateTimeFormat(locale, { year: 'numeric', month: 'long', day: 'numeric' }).format(new Date(Date.UTC(2026, 10, 26))));
}
p(() => date.toLocaleString('en', { timeStyle: 'short' }), () => time.toLocaleString('en', { dateStyle: 'short' }), () => zoned.toLocaleString('en', { timeZone: 'UTC' }));
