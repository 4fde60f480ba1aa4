const told = await (await fetch('$WEB/echo')).json();
console.log(told.method, told.uri, told.bytes, told.headers.accept);
const kinds = {
  text: 'grün', params: new URLSearchParams({ a: '1 2', b: 'ü' }), bytes: new Uint8Array([104, 105]), buffer: new TextEncoder().encode('buffer').buffer,
  blob: new Blob(['blob'], { type: 'text/x-own' }), view: new DataView(new TextEncoder().encode('view').buffer), empty: '',
};
for (const [name, body] of Object.entries(kinds)) {
  const sent = await (await fetch('$WEB/echo', { method: 'POST', body })).json();
  console.log(name, sent.method, sent.bytes, sent.body, sent.headers['content-type'], sent.headers['content-length']);
}
const json = await (await fetch('$WEB/echo', { method: 'put', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ a: [1] }) })).json();
console.log(json.method, json.headers['content-type'], JSON.parse(json.body));
const request = new Request('$WEB/echo?x=1', { method: 'DELETE', headers: [['x-one', '1'], ['x-one', '2']] });
const deleted = await (await fetch(request)).json();
console.log(deleted.method, deleted.uri, deleted.headers['x-one']);
const again = await (await fetch(new Request('$WEB/echo', { method: 'POST', body: 'first' }), { body: 'second' })).json();
console.log(again.body);
