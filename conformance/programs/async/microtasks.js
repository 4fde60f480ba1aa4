const log = (...a) => console.log(...a);
setTimeout(() => log('timeout'), 1);
queueMicrotask(() => { log('micro 1'); queueMicrotask(() => log('micro 1.1')); });
Promise.resolve().then(() => log('then 1')).then(() => log('then 2')).finally(() => log('finally'));
(async () => { log('sync part'); await null; log('after await'); await undefined; log('after two'); })();
queueMicrotask(() => log('micro 2'));
log('sync end');
await new Promise((r) => setTimeout(r, 5));
log('later');
