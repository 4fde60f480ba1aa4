const { Writable } = require('stream');
const got = [];
const w = new Writable({ write(chunk, encoding, done) { got.push(chunk.toString()); done(); }, final(done) { got.push('final'); done(); } });
w.write('a'); w.write(Buffer.from('b'));
await new Promise((resolve) => w.end('c', resolve));
console.log(got.join(), w.writableEnded, w.writableFinished);
