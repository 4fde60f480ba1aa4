// What is damaged is named as zlib names it; what is behind the end is told apart.
const zlib = require('zlib');

const told = (name, work) => {
  try {
    console.log(name, work().toString());
  } catch (error) {
    console.log(name, error.code, error.errno, error.message);
  }
};
const gzip = zlib.gzipSync('text');
const deflate = zlib.deflateSync('text');
const changed = (bytes, at, to) => Buffer.from(bytes.map((byte, index) => (index === (at < 0 ? bytes.length + at : at) ? to : byte)));
told('method', () => zlib.gunzipSync(changed(gzip, 2, 7)));
told('flags', () => zlib.gunzipSync(changed(gzip, 3, 0x80)));
told('sum', () => zlib.gunzipSync(changed(gzip, -8, gzip.at(-8) ^ 1)));
told('length', () => zlib.gunzipSync(changed(gzip, -4, 9)));
told('zlib sum', () => zlib.inflateSync(changed(deflate, -1, deflate.at(-1) ^ 1)));
told('zlib head', () => zlib.inflateSync(changed(deflate, 0, 0x79)));
told('early', () => zlib.gunzipSync(gzip.subarray(0, 15)));
told('early, and that is fine', () => zlib.gunzipSync(gzip.subarray(0, -8), { finishFlush: zlib.constants.Z_SYNC_FLUSH }));
told('two members', () => zlib.gunzipSync(Buffer.concat([gzip, gzip])));
told('zeros behind', () => zlib.gunzipSync(Buffer.concat([gzip, Buffer.alloc(8)])));
told('something behind', () => zlib.gunzipSync(Buffer.concat([gzip, Buffer.from([1, 2, 3])])));
told('too much', () => zlib.gunzipSync(zlib.gzipSync('x'.repeat(5000)), { maxOutputLength: 1000 }));
told('unzip', () => zlib.unzipSync(gzip));
told('unzip zlib', () => zlib.unzipSync(deflate));
for (const options of [{ level: 10 }, { chunkSize: 0 }, { windowBits: 7 }, { flush: 'x' }]) told(JSON.stringify(options), () => zlib.deflateSync('x', options));
