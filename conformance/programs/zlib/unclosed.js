// Streams that nobody closes, more than may be open at once.
const zlib = require('node:zlib');
let made = 0;
for (let i = 0; i < 300; i++) {
  const stream = i % 2 === 0 ? zlib.createGzip() : zlib.createInflate();
  await new Promise((resolve) => stream.write(i % 2 === 0 ? 'text' : zlib.deflateSync('text').subarray(0, 4), resolve));
  made += 1;
}
console.log(made);
