const tries = [
  async () => { throw new TypeError('thrown'); },
  () => Promise.reject('plain'),
  async () => { await null; null.x; },
  async () => { await Promise.reject(undefined); },
  async (a = (() => { throw 'in default'; })()) => a,
  async () => { for await (const x of (async function* () { throw 'in generator'; })()); },
  () => new Promise(() => { throw 'in executor'; }),
  () => new Promise((y) => { y('first'); throw 'ignored'; }),
  () => Promise.resolve({ get then() { throw 'in getter'; } }),
  () => Promise.resolve({ then() { throw 'in then'; } }),
  () => Promise.resolve().then(() => { throw 'in handler'; }).then(() => 'skipped'),
  () => Promise.reject(1).then(null, (x) => x + 1),
];
for (const t of tries) {
  try { console.log('value', await t()); } catch (e) { console.log('error', e instanceof Error ? e.name : e); }
}
const p = Promise.resolve();
try { p.then.call(1); } catch (e) { console.log(e.name); }
const self = new Promise((r) => setTimeout(() => r(self), 1));
try { await self; } catch (e) { console.log(e.name); }
