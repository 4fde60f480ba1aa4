const out = [];
const say = (x) => () => out.push(x);
setTimeout(say('t1'), 1); setTimeout(say('t2'), 1); setTimeout(say('t30'), 30);
Promise.resolve().then(say('p1')).then(say('p2')); queueMicrotask(say('m1')); (async () => { await 0; out.push('a1'); await 0; out.push('a2'); })(); out.push('sync');
await new Promise((r) => setTimeout(r, 60)); console.log(out.join(' '));
out.length = 0; setTimeout(() => { out.push('timer'); Promise.resolve().then(say('after timer')); queueMicrotask(say('micro after')); }, 1); setTimeout(say('second'), 25); await new Promise((r) => setTimeout(r, 60)); console.log(out.join(' '));
