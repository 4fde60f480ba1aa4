const http = await import('node:http');
const https = await import('node:https');
const asked = (url, options = {}, body) => new Promise((resolve) => {
  const told = [];
  const request = http.request(url, options, (response) => {
    let text = '';
    response.setEncoding('utf8');
    response.on('data', (part) => { text += part; });
    response.on('end', () => { told.push('end', response.complete); });
    response.on('close', () => resolve([response.statusCode, response.statusMessage, response.headers['content-type'], response.headers.location, text, ...told]));
  });
  request.on('error', (error) => resolve([error.name, error.code]));
  request.end(body);
});
const [status, message, type, , text] = await asked('$WEB/echo?a=1', { headers: { 'X-One': 'two' } });
const told = JSON.parse(text);
console.log(status, message, type, told.method, told.headers['x-one']);
const posted = JSON.parse((await asked('$WEB/echo', { method: 'POST', headers: { 'content-type': 'application/json' } }, JSON.stringify({ n: 1 })))[4]);
console.log(posted.method, posted.body, posted.headers['content-type']);
console.log(await asked('$WEB/status/404'));
console.log((await asked('$WEB/redirect/302?to=/echo')).slice(0, 4));
console.log(await asked('$CLOSED/'));
console.log(await new Promise((resolve) => http.get('$WEB/bytes/70000', (response) => {
  let bytes = 0;
  response.on('data', (part) => { bytes += part.length; }).on('end', () => resolve(bytes));
})));
const parts = [];
for await (const part of await new Promise((resolve) => http.get('$WEB/drip/3', resolve))) parts.push(String(part));
console.log(parts.join('').length > 0);
console.log(await new Promise((resolve) => {
  const events = [];
  const request = http.get('$WEB/hang');
  for (const name of ['error', 'close', 'timeout']) request.on(name, (error) => { events.push(name, error?.code); if (name === 'close') resolve([...events, request.destroyed]); });
  request.setTimeout(20, () => request.destroy());
}));
const failed = (work) => { try { work(); } catch (error) { return [error.name, error.code, error.message]; } };
console.log(failed(() => http.request('$WEB/', { method: 'B AD' })), failed(() => http.request('$WEB/', { headers: { 'a b': 'x' } })));
console.log(failed(() => http.request('$WEB/', { headers: { a: 'x\ny' } })), failed(() => https.request('$WEB/')), failed(() => http.request('$WEB/', { method: 5 })));
console.log(http.METHODS.length, http.STATUS_CODES[418], Object.keys(http.STATUS_CODES).length);
console.log(await fetch('http://127.0.0.1:25/').catch((e) => [e.name, e.message, e.cause.message]));
