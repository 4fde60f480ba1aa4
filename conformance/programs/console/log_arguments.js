console.log(); console.log(''); console.log('a', 'b'); console.log('a', 1, { b: 2 }, [3]); console.log(1, 'x'); console.log(undefined, 'x', null);
console.log('multi\nline', { a: 1 }); console.log(' leading', ' and trailing ');
console.log([1], 'after object'); console.log(Symbol('a'), 'b'); console.log(-0, [-0]); console.log('%'); console.log('100%'); console.log('100%', 5);
