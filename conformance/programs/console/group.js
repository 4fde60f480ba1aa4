console.log('0'); console.group('A'); console.log('1'); console.group(); console.log('2\nlines'); console.groupEnd(); console.log({ a: 'x'.repeat(80), b: 1 }); console.groupEnd(); console.groupEnd(); console.log('0 again');
console.groupCollapsed('C', 1, { d: 2 }); console.info('in'); console.debug('deep'); console.groupEnd(); console.log('out');
