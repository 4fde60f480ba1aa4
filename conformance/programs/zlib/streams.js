const zlib = require('zlib');
const { Readable, pipeline } = require('stream');
const { promisify } = require('util');
(async () => {
  const chunks = [];
  for await (const chunk of Readable.from(['alpha ', 'beta ', 'gamma']).pipe(zlib.createGzip()).pipe(zlib.createGunzip())) chunks.push(chunk);
  console.log(Buffer.concat(chunks).toString());
  const packed = await promisify(zlib.deflate)('promised');
  console.log((await promisify(zlib.inflate)(packed)).toString());
  zlib.brotliCompress('by callback', (error, made) => zlib.brotliDecompress(made, (again, text) => console.log(error, again, text.toString())));
  pipeline(Readable.from([Buffer.from('no gzip')]), zlib.createGunzip(), (error) => console.log(error.code));
})();
