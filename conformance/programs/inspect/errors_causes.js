Error.stackTraceLimit = 0;
console.log(new Error('outer', { cause: new Error('inner') }));
console.log(new Error('outer', { cause: 'text' }), new Error('outer', { cause: { code: 1 } }), new Error('u', { cause: undefined }));
console.log(new Error('1', { cause: new Error('2', { cause: new Error('3', { cause: new Error('4') }) }) }));
console.log(new AggregateError([new Error('a'), new TypeError('b')], 'several'), new AggregateError([]));
