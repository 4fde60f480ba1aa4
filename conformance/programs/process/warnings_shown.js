const odd = new Error('odd');
odd.toString = 1;
process.emitWarning(odd);
process.on('warning', (warning) => console.log(warning.name, warning.message, warning.code));
process.emitWarning('with a code', { code: 'CODE', detail: 'more' });
process.emit('warning', 'no error');
await new Promise((done) => setTimeout(done, 5));
