import ms from 'ms';
console.log(ms('2 days'), ms('1.5h'), ms('-3 min'), ms('nothing'), ms(60_000), ms(2 * 3_600_000, { long: true }));
try { ms({}); } catch (error) { console.log(error.message); }
