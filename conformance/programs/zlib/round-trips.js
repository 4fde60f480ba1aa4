const zlib = require('node:zlib');
const text = Buffer.from('a rose is a rose is a rose. '.repeat(200) + 'ünïcödé 🦀');
for (const [pack, unpack] of [['gzip', 'gunzip'], ['deflate', 'inflate'], ['deflateRaw', 'inflateRaw'], ['brotliCompress', 'brotliDecompress'], ['gzip', 'unzip'], ['deflate', 'unzip']]) {
  const packed = zlib[`${pack}Sync`](text);
  console.log(pack, unpack, packed.length < text.length / 10, zlib[`${unpack}Sync`](packed).equals(text));
}
console.log(zlib.gunzipSync(Buffer.concat([zlib.gzipSync('one '), zlib.gzipSync('two')])).toString());
console.log(zlib.inflateSync(Buffer.from('eJzLSM3JyVcozy/KSQEAGgsEXQ==', 'base64')).toString());
console.log(zlib.gunzipSync(Buffer.from('H4sIAAAAAAAAA8tIzcnJVyjPL8pJAQCFEUoNCwAAAA==', 'base64')).toString());
