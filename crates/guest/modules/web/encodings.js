// What TextDecoder knows beside UTF-8: the encodings of the web, by encoding_rs.
const { encodingName, decodeAs } = natives.part('encodings');

const NOTHING = new ArrayBuffer(0);
// A decoder of one label: `decode(buffer, more)` gives text, or nothing when it must be fatal.
const decoderOf = (encoding, fatal, keepMark) => {
  let stream = -1;
  return (buffer = NOTHING, more = false) => {
    const at = stream;
    stream = -1;
    const made = decodeAs(encoding, at, buffer, fatal, keepMark, more);
    if (made === undefined || made === null) return undefined;
    stream = made[1];
    return made[0];
  };
};
module.exports = { encodingName, decoderOf };
