const crypto = require('crypto');
const b = crypto.randomBytes(100);
console.log(b.length, b instanceof Buffer, b.some((x) => x !== 0), crypto.randomBytes(0).length, crypto.randomBytes(70000).length, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()));
const drawn = Array.from({ length: 200 }, () => crypto.randomInt(3, 6));
console.log(Math.min(...drawn), Math.max(...drawn), crypto.randomInt(1), crypto.randomFillSync(new Uint8Array(8)).length);
await new Promise((resolve) => crypto.randomBytes(4, (error, bytes) => { console.log(error, bytes.length); resolve(); }));
for (const work of [() => crypto.randomBytes('x'), () => crypto.randomBytes(-1), () => crypto.randomInt(5, 5)]) try { work(); } catch (error) { console.log(error.name, error.code); }
