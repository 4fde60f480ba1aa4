console.log('%%'); console.log('%% %s', 'a'); console.log('100%% of %s', 'x'); console.log('%s%%', 50); console.log('%s'); console.log('%s %s', 'only one'); console.log('%x %s', 'a'); console.log('a%', 'b'); console.log('%s', 'a', 'b', { c: 1 });
console.log('%%s', 'x'); console.log('%', 'x', 'y'); console.log('%d%%', 5, 'more');
