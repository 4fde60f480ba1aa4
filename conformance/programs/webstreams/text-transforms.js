const chunks = ['é', '€', '😀'.slice(0, 1), '😀'.slice(1), 'z'];
const bytes = [];
for await (const part of new ReadableStream({ start(c) { for (const x of chunks) c.enqueue(x); c.close(); } }).pipeThrough(new TextEncoderStream())) bytes.push(...part);
console.log(Buffer.from(bytes).toString('hex'));
let text = '';
for await (const part of new ReadableStream({ start(c) { for (const x of bytes) c.enqueue(new Uint8Array([x])); c.close(); } }).pipeThrough(new TextDecoderStream())) text += part;
console.log(text);
