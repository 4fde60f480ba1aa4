// Characters that come in parts.
const { StringDecoder } = require('string_decoder');

for (const [encoding, hex] of [['utf8', 'e282acf09f9880c3'], ['utf16le', '3dd84ddc41003d'], ['base64', '0102030405'], ['base64url', 'fffefd01'], ['hex', '0a0b'], ['latin1', 'e4f6']]) {
  const decoder = new StringDecoder(encoding);
  const bytes = Buffer.from(hex, 'hex');
  console.log(encoding, [...bytes].map((byte) => decoder.write(Buffer.from([byte]))), decoder.lastNeed, decoder.lastTotal, JSON.stringify(decoder.end()));
}
try {
  new StringDecoder('none');
} catch (error) {
  console.log(error.code, error.message);
}
