const { Readable } = require('stream');
const seen = [];
for await (const chunk of Readable.from(['a', 'b', { c: 1 }])) seen.push(JSON.stringify(chunk));
console.log(seen.join());
async function* numbers() { for (let i = 0; i < 4; i++) yield i; }
console.log((await Readable.from(numbers()).map((x) => x * 2).filter((x) => x > 0).toArray()).join());
