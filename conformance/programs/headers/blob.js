const b = new Blob(['ab', new Uint8Array([99]), new Blob(['de'])], { type: 'Text/Plain' });
console.log(b.size, b.type, await b.text(), await b.slice(1, 3).text(), await b.slice(-2).text(), b.slice(0, 1, 'x/y').type, (await b.arrayBuffer()).byteLength);
let got = '';
for await (const chunk of b.stream()) got += Buffer.from(chunk).toString();
console.log(got, Object.prototype.toString.call(b), b instanceof Blob);
