const { Readable } = require('stream');
const r = new Readable({ read() {} });
r.on('close', () => console.log('close'));
r.on('error', (error) => console.log('error', error.message));
r.destroy(new Error('gone'));
await new Promise((resolve) => setTimeout(resolve, 5));
console.log(r.destroyed, r.errored.message, r.readable);
