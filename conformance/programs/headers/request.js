const r = new Request('http://h.com/p?q', { method: 'post', headers: { a: 'b' }, body: 'text' });
console.log(r.method, r.url, r.headers.get('a'), r.headers.get('content-type'), await r.clone().text(), r.bodyUsed, r.redirect, r.credentials, r.mode, r.cache);
const again = new Request(r, { headers: { c: 'd' } });
console.log(again.method, again.headers.get('a'), again.headers.get('c'), await again.text());
console.log(new Request(new URL('http://x')).url, new Request('http://x', { method: 'patch' }).method, new Request('http://x').signal.aborted);
for (const args of [['relative'], ['http://x', { body: 'x' }], ['http://x', { method: 'TRACE' }], ['http://u:p@x'], ['http://x', { method: 'a b' }], ['http://x', { redirect: 'nope' }]]) try { new Request(...args); console.log('fine'); } catch (error) { console.log(error.name); }
