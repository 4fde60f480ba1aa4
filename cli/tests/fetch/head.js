const r = await fetch('$WEB/status/404');
console.log(r.ok, r.status, r.statusText, r.url === '$WEB/status/404', r.type, r.redirected, r.bodyUsed);
console.log(await r.text(), r.bodyUsed);
console.log(await r.text().catch((e) => [e.name, e.message]));
console.log(r instanceof Response, Object.prototype.toString.call(r), r.headers instanceof Headers);
const empty = await fetch('$WEB/status/204');
console.log(empty.status, empty.body, JSON.stringify(await empty.text()));
const head = await fetch('$WEB/bytes/10', { method: 'head' });
console.log(head.status, head.headers.get('content-length'), head.body, (await head.arrayBuffer()).byteLength);
