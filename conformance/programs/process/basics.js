console.log(typeof process, Object.prototype.toString.call(process), process.platform, global === globalThis, require('node:process') === process);
process.on('custom', (a, b) => console.log('custom', a, b));
process.once('custom', () => console.log('once'));
console.log(process.emit('custom', 1, 2), process.emit('custom', 3, 4), process.emit('nothing'), process.listenerCount('custom'));
const begin = process.hrtime();
const [seconds, rest] = process.hrtime(begin);
console.log(seconds >= 0, rest >= 0, typeof process.hrtime.bigint());
process.stdout.write('a line\n');
process.stdout.write('two ');
process.stdout.write('parts\n');
process.nextTick((x) => console.log('tick', x), 7);
console.log(typeof process.cwd(), typeof process.uptime(), typeof process.memoryUsage().heapUsed, Array.isArray(process.argv), typeof process.env);
for (const work of [() => process.nextTick('x'), () => process.hrtime(1), () => process.hrtime([1])]) { try { work(); } catch (e) { console.log(e.name, e.code); } }
