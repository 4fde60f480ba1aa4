// Node's own zlib, over the engine's streams.
module.exports = require('lib/zlib');
const { codes } = require('web/errors');
const { validateUint32 } = require('web/validators');
// Node 20 has it, and the file above is of Node 18.
let table;
module.exports.crc32 = function crc32(data, value = 0) {
  if (typeof data === 'string') data = Buffer.from(data);
  else if (!ArrayBuffer.isView(data)) throw new codes.ERR_INVALID_ARG_TYPE('data', ['Buffer', 'TypedArray', 'DataView', 'string'], data);
  validateUint32(value, 'value');
  table ??= Int32Array.from({ length: 256 }, (_, n) => {
    for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
    return n;
  });
  let crc = ~value;
  for (const byte of new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) crc = table[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
};
