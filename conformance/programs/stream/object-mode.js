const { Transform, Readable } = require('stream');
const t = new Transform({ objectMode: true, transform(row, encoding, done) { done(null, { ...row, sum: row.a + row.b }); } });
const rows = [];
for await (const row of Readable.from([{ a: 1, b: 2 }, { a: 3, b: 4 }]).pipe(t)) rows.push(row);
console.log(JSON.stringify(rows));
