const d = new Date(0);
console.log(d.setMinutes(NaN), d.getTime(), d.setDate(5), d.setFullYear(2000), d.toISOString());
const e = new Date(0);
console.log(e.setTime(NaN), e.setHours(1), e.setUTCMonth(1), e.getTime());
const f = new Date(0);
console.log(f.setHours(1, undefined), f.getTime(), f.setFullYear(NaN), f.getTime());
