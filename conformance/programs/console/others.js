// Consoles of one's own write to their streams.
const { Writable } = require('stream');

const written = [];
const to = (name) => new Writable({ write(chunk, encoding, done) { written.push(`${name}: ${chunk}`); done(); } });
const mine = new console.Console({ stdout: to('out'), stderr: to('err') });
mine.log('%s is %d', 'six', 6, { a: [1, 2] });
mine.error('wrong');
mine.group('inside');
mine.table([{ a: 1 }]);
mine.groupEnd();
mine.count();
mine.assert(false, 'no');
setTimeout(() => console.log(written.join('')), 1);
