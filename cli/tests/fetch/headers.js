const r = await fetch('$WEB/cookies');
console.log(r.headers.getSetCookie(), r.headers.get('x-latin'), r.headers.get('nothing'));
try { r.headers.set('a', 'b'); } catch (e) { console.log(e.name, e.message); }
const zipped = await fetch('$WEB/gzip');
console.log(zipped.headers.get('content-encoding'), zipped.headers.get('content-type'), (await zipped.text()).length);
const told = await (await fetch('$WEB/echo', { headers: { 'X-Own': 'caf\u00e9', 'User-Agent': 'mine', cookie: 'a=1', accept: 'text/html' } })).json();
console.log(told.headers['user-agent'], told.headers.cookie, told.headers.accept);
console.log(await fetch('$WEB/echo', { headers: { 'bad name': '1' } }).catch((e) => e.name));
