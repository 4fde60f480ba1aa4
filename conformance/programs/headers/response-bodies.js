const r = new Response('{"a":1}', { status: 201, statusText: 'Made', headers: { 'x-y': 'z' } });
console.log(r.status, r.statusText, r.ok, r.headers.get('x-y'), r.headers.get('content-type'), r.bodyUsed, r.type);
console.log((await r.json()).a, r.bodyUsed);
await r.text().catch((error) => console.log(error.name));
console.log(await new Response().text() === '', new Response(null).body, new Response('', { status: 404 }).ok);
for (const init of [{ status: 99 }, { status: 600 }, { status: 204 }]) try { new Response('x', init); } catch (error) { console.log(error.name); }
