const { pipeline } = require('stream/promises');
const { Readable, Writable } = require('stream');
const bad = new Writable({ write(chunk, encoding, done) { done(new Error('sink broke')); } });
await pipeline(Readable.from(['a', 'b', 'c']), bad).catch((error) => console.log(error.message));
const result = [];
await pipeline(Readable.from([1, 2, 3]), async function* (source) { for await (const n of source) yield n * n; }, async (source) => { for await (const n of source) result.push(n); });
console.log(result.join());
