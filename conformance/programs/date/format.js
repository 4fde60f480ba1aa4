const d = new Date(Date.UTC(2024, 4, 6, 7, 8, 9, 12));
console.log(d.toISOString(), d.toJSON() , d.toUTCString(), d.toDateString());
console.log(+d, JSON.stringify({ d }), d.getTimezoneOffset(), String(new Date(NaN)), new Date(NaN).toJSON());
try { new Date(NaN).toISOString(); } catch (e) { console.log(e.name); }
console.log(new Date(-1).toISOString(), new Date(-62198755200000).toISOString(), new Date(253402300800000).toISOString(), new Date(Date.UTC(-1, 0)).toUTCString(), new Date(Date.UTC(5, 0)).setUTCFullYear(5));
console.log(d.getDay(), d.getUTCDay(), d.getYear(), d.valueOf() === d.getTime(), d.toGMTString === d.toUTCString, Date.prototype.constructor === Date);
