const { setTimeout: wait, setImmediate: soon, setInterval: every } = require('timers/promises');
console.log(await wait(1, 'value'), await soon('soon'));
let n = 0;
for await (const tick of every(1, 'tick')) { console.log(tick); if (++n === 2) break; }
const stop = new AbortController();
const waiting = wait(10000, null, { signal: stop.signal });
stop.abort();
await waiting.catch((error) => console.log(error.name, error.code));
