const to = (code, path) => '$WEB/redirect/' + code + '?to=' + encodeURIComponent(path);
for (const code of [301, 302, 303, 307, 308]) {
  const r = await fetch(to(code, '/echo?from=' + code), { method: 'POST', body: 'kept?' });
  const told = await r.json();
  console.log(code, r.redirected, r.url.slice('$WEB'.length), told.method, told.body, told.headers['content-type']);
}
console.log((await (await fetch(to(303, '/echo'), { method: 'PUT', body: 'x' })).json()).method);
const manual = await fetch(to(302, '/echo'), { redirect: 'manual' });
console.log(manual.status, manual.headers.get('location'), manual.redirected);
console.log(await fetch(to(302, '/echo'), { redirect: 'error' }).catch((e) => [e.name, e.message, e.cause.message]));
console.log(await fetch('$WEB/circle').catch((e) => [e.name, e.message, e.cause.message]));
const nested = await fetch(to(302, to(307, '/status/418')));
console.log(nested.status, await nested.text());
console.log((await fetch('$WEB/redirect/302')).status);
