console.log(await new Response(new Uint8Array([104, 105])).text(), await new Response(new URLSearchParams('a=b c')).text(), new Response(new URLSearchParams()).headers.get('content-type'));
const blob = await new Response('hi', { headers: { 'content-type': 'text/x' } }).blob();
console.log(blob.size, blob.type, (await new Response('é').arrayBuffer()).byteLength);
const j = Response.json({ x: [1] }, { status: 202 });
console.log(j.status, j.headers.get('content-type'), await j.text());
const to = Response.redirect('http://x.com/a', 301);
console.log(to.status, to.headers.get('location'), Response.error().type, Response.error().status);
