const timers = require('node:timers');
await new Promise((resolve) => timers.setTimeout(resolve, 1));
console.log(typeof timers.setInterval, typeof timers.promises.setTimeout, require('timers/promises') === timers.promises);
const { promisify } = require('util');
console.log(await promisify(setTimeout)(1, 'p'));
