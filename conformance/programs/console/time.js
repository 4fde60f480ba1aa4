console.time('t'); console.timeEnd('unknown'); console.timeLog('also unknown'); console.log('done');
