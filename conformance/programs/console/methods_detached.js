const { log, info } = console; log('a'); info('b'); [1, 2].forEach((x) => log(x)); Promise.resolve('later').then(console.log); await null; setTimeout(console.log, 0, 'timer', 1);
