const r = new Response(new ReadableStream({ start(c) { c.enqueue(new TextEncoder().encode('str')); c.enqueue(new TextEncoder().encode('eam')); c.close(); } }));
const copy = r.clone();
console.log(await r.text(), await copy.text(), r.bodyUsed);
const s = new Response('abc');
const reader = s.body.getReader();
console.log(Buffer.from((await reader.read()).value).toString(), (await reader.read()).done, s.bodyUsed);
await s.text().catch((error) => console.log(error.name));
try { s.clone(); } catch (error) { console.log(error.name); }
