// Dictionaries, of zlib's frame and without one, and what goes wrong with them.
const zlib = require('zlib');

const dictionary = Buffer.from('the words that are often said in these texts');
const text = 'the words that are often said';
for (const [pack, unpack] of [['deflateSync', 'inflateSync'], ['deflateRawSync', 'inflateRawSync']]) {
  const packed = zlib[pack](text, { dictionary });
  console.log(pack, packed.length < zlib[pack](text).length, zlib[unpack](packed, { dictionary }).toString());
}
for (const options of [{}, { dictionary: Buffer.from('another') }]) {
  try {
    zlib.inflateSync(zlib.deflateSync(text, { dictionary }), options);
  } catch (error) {
    console.log(error.code, error.errno, error.message);
  }
}
