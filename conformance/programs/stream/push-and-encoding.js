const { Readable } = require('node:stream');
const r = new Readable({ read() {} });
r.setEncoding('utf8');
const bytes = Buffer.from('é€😀');
r.push(bytes.subarray(0, 1)); r.push(bytes.subarray(1, 4)); r.push(bytes.subarray(4)); r.push(null);
let text = '';
for await (const chunk of r) text += chunk;
console.log(text, r.readableEnded, r.destroyed);
