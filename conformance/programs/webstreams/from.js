const all = [];
for await (const x of ReadableStream.from(['p', Promise.resolve('q')])) all.push(x);
console.log(all.join());
console.log(require('stream/web').ReadableStream === ReadableStream);
