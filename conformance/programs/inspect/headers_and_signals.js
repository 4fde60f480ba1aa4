const util = require('util');
const headers = new Headers({ 'Content-Type': 'text/plain', b: '2', a: '1' });
headers.append('content-type', 'x');
headers.append('set-cookie', 'x=1');
headers.append('set-cookie', 'y=2');
headers.set('B', '3');
console.log(headers, new Headers());
console.log([headers], { in: { an: { object: headers } } });
console.log(util.inspect(headers, { depth: 0 }), util.inspect(headers, { depth: -1 }));
console.log(new Headers(Array.from({ length: 8 }, (_, at) => [`name-${at}`, 'value '.repeat(3) + at])));
console.log(new Response('', { headers: { b: '1', a: '2' } }).headers);
const control = new AbortController();
console.log(control, control.signal, [control.signal], { a: { b: { control } } }, { a: { b: { signal: control.signal } } });
control.abort();
console.log(control.signal, AbortSignal.abort());
console.log(util.inspect(control, { depth: 0 }), util.inspect(control.signal, { depth: -1 }));
class Own extends AbortController { x = 1; }
console.log(new Own());
console.log([Headers, AbortController, AbortSignal, Blob, File, FormData, URLSearchParams, CompressionStream, TextDecoder, Map]);
