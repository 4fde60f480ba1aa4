import pako from 'pako';
const text = 'to be or not to be, '.repeat(200);
const packed = pako.gzip(text, { level: 9 });
console.log(packed.length, pako.ungzip(packed, { to: 'string' }) === text, Buffer.from(pako.deflateRaw('größe')).toString('hex'));
try { pako.inflate(new Uint8Array([1, 2, 3])); } catch (error) { console.log(error); }
const inflating = new pako.Inflate();
for (let at = 0; at < packed.length; at += 7) inflating.push(packed.subarray(at, at + 7));
console.log(inflating.err, inflating.result.length);
