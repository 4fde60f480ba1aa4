const value = await new Promise((r) => setTimeout(() => r({ a: [1, 2] }), 2));
console.log(value);
const { a: [x, y] } = await value;
console.log(x + await y + (await Promise.resolve(await 3)));
for (const n of [1, 2]) { if (await Promise.resolve(n === 2)) console.log('two'); }
const f = await (async () => { try { await Promise.reject(new Error('e')); } catch (e) { return e.message; } })();
console.log(f, `${await 'template'}`, [await 1, ...await [2]], { [await 'k']: await 1 });
label: while (true) { await null; break label; }
switch (await 1) { case await 1: console.log('switch'); }
const cond = ((await false) || (await null)) ?? 'nullish';
console.log(cond);
