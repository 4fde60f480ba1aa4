const get = () => fetch('$WEB/bytes/300');
console.log((await (await get()).arrayBuffer()).byteLength);
const blob = await (await get()).blob();
console.log(blob.size, blob.type, blob instanceof Blob);
const reader = (await get()).body.getReader();
let total = 0, sum = 0;
for (let next = await reader.read(); !next.done; next = await reader.read()) { total += next.value.length; for (const byte of next.value) sum += byte; }
console.log(total, sum);
let iterated = 0;
for await (const chunk of (await get()).body) iterated += chunk.length;
console.log(iterated);
const one = await get();
const two = one.clone();
console.log((await one.arrayBuffer()).byteLength, (await two.arrayBuffer()).byteLength, two.url === one.url);
const locked = await get();
locked.body.getReader();
console.log(await locked.text().catch((e) => e.name));
const bad = await fetch('$WEB/status/200');
console.log(await bad.json().catch((e) => e.name));
