const { Writable } = require('stream');
const waiting = [];
const w = new Writable({ highWaterMark: 4, write(chunk, encoding, done) { waiting.push(done); } });
console.log(w.write('abc'), w.write('de'), w.writableLength, w.writableNeedDrain);
w.on('drain', () => console.log('drain', w.writableLength));
while (waiting.length) { waiting.shift()(); await new Promise((resolve) => setTimeout(resolve, 1)); }
console.log(w.writableLength);
