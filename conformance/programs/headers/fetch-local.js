// Addresses that hold their data, and those of blobs, are fetched without a network.
for (const url of ['data:,plain%20text', 'data:text/html;charset=utf-8,<p>%C3%A4', 'data:application/x-thing;base64,AAEC/w==', 'data:;base64,YQ', 'data:nonsense,x', 'data:text/plain,a#fragment', 'data:no-comma', 'data:;base64,*']) {
  await fetch(url).then(async (it) => console.log(it.status, it.ok, it.headers.get('content-type'), it.type, [...new Uint8Array(await it.arrayBuffer())].join()), (error) => console.log(error.name, error.message));
}
const blob = new Blob(['some ', 'text'], { type: 'text/x-blob' });
const url = URL.createObjectURL(blob);
for (const [address, options] of [[url], [`${url}#part`], [`${url}?query`], [url, { method: 'POST' }]]) {
  await fetch(address, options).then(async (it) => console.log(it.status, it.headers.get('content-type'), it.headers.get('content-length'), await it.text()), (error) => console.log(error.name, error.message));
}
const begun = fetch(url);
URL.revokeObjectURL(url);
console.log(await (await begun).text());
await fetch(url).catch((error) => console.log(error.name, error.message));
