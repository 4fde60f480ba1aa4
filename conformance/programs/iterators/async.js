async function* count(n) { try { for (let i = 0; i < n; i++) { await null; yield i; } } finally { console.log('closed'); } }
for await (const x of count(5)) { console.log(x); if (x === 2) break; }
for await (const x of [Promise.resolve('a'), 'b', new Promise((r) => setTimeout(r, 2, 'c'))]) console.log(x);
const manual = { [Symbol.asyncIterator]() { let i = 0; return { next: async () => ({ value: i, done: i++ >= 2 }), return: async () => { console.log('return'); return {}; } }; } };
for await (const x of manual) console.log('manual', x);
try { for await (const x of manual) throw new Error('inside'); } catch (e) { console.log(e.message); }
try { for await (const x of [Promise.reject(new Error('rejected'))]); } catch (e) { console.log(e.message); }
const g = count(2);
console.log(await Promise.all([g.next(), g.next(), g.next(), g.next()]));
console.log(Object.prototype.toString.call(g), typeof g[Symbol.asyncIterator], g[Symbol.asyncIterator]() === g);
async function* delegate() { const r = yield* inner(); console.log('got', r); }
async function* inner() { yield 1; yield 2; return 'r'; }
for await (const x of delegate()) console.log(x);
