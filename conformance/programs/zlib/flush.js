// A stream gives what it has when it is flushed, and goes on.
const zlib = require('zlib');

const deflate = zlib.createDeflate();
const inflate = zlib.createInflate();
deflate.on('data', (chunk) => inflate.write(chunk));
let text = '';
inflate.on('data', (chunk) => {
  text += chunk;
  console.log('got', text);
  if (text === 'first') {
    deflate.write(' second');
    deflate.flush();
  } else deflate.end();
});
deflate.on('end', () => {
  inflate.end();
  console.log('ended');
});
deflate.write('first');
deflate.flush();
