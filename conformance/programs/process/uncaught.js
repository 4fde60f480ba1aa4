// What nobody caught goes to the listeners, once each.
process.on('uncaughtException', (error, origin) => console.log('caught', error.message, origin));
process.nextTick(() => { throw new Error('of a tick'); });
setTimeout(() => { throw new Error('of a timer'); }, 1);
setTimeout(() => console.log('the next timer runs'), 5);
