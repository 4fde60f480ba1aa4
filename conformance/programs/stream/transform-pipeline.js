const { Transform, Readable, pipeline } = require('stream');
const { promisify } = require('util');
const upper = new Transform({ transform(chunk, encoding, done) { done(null, chunk.toString().toUpperCase()); }, flush(done) { this.push('!'); done(); } });
const out = [];
const sink = new (require('stream').Writable)({ write(chunk, encoding, done) { out.push(chunk.toString()); done(); } });
await promisify(pipeline)(Readable.from(['a', 'b']), upper, sink);
console.log(out.join(''));
