const out = [];
await Promise.resolve(1).finally(() => 2).then((v) => out.push(v));
await Promise.resolve(1).finally(() => { throw 'from finally'; }).catch((v) => out.push(v));
await Promise.reject('r').finally(() => 3).catch((v) => out.push(v));
await Promise.resolve('waits').finally(() => new Promise((r) => setTimeout(r, 3))).then((v) => out.push(v));
async function f() { try { return 'try'; } finally { await null; out.push('cleanup'); } }
async function g() { try { throw 1; } catch { return await f(); } finally { out.push('g'); } }
out.push(await g());
async function h() { try { return 1; } finally { return 2; } }
out.push(await h());
async function loop() { for (let i = 0; i < 3; i++) { try { if (i === 1) continue; out.push(`i${i}`); } finally { await null; out.push(`f${i}`); } } }
await loop();
console.log(out.join());
