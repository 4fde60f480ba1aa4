console.log(1, '%s', 'x'); console.log({ a: 1 }, '%d', 5); console.log('no directives', '%s', 'x'); console.log('%s is %d years and %i months', 'Bob', 42, 3.7, 'extra');
