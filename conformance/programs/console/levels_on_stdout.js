console.log('log'); console.info('info'); console.debug('debug'); console.error('not on stdout'); console.warn('nor this');
console.dirxml({ a: 1 }, [2]);
