const out = [];
async function* a() { out.push('a start'); yield 1; out.push('a mid'); yield 2; out.push('a end'); }
const it = a();
const ps = [it.next(), it.next(), it.return('r'), it.next()];
out.push('requested');
for (const p of ps) out.push(JSON.stringify(await p));
console.log(out.join('\n'));
const events = [];
const emitter = { async *[Symbol.asyncIterator]() { for (const x of [3, 1, 2]) { await new Promise((r) => setTimeout(r, x)); yield x; } } };
for await (const x of emitter) events.push(x);
console.log(events);
const t = a();
await t.next();
try { await t.throw(new Error('thrown in')); } catch (e) { console.log(e.message, await t.next()); }
