import pLimit from 'p-limit';
const limit = pLimit(2);
let running = 0; let most = 0; const order = [];
const work = (name, milliseconds) => limit(async () => {
  running += 1; most = Math.max(most, running);
  await new Promise((done) => setTimeout(done, milliseconds));
  running -= 1; order.push(name);
  return name.toUpperCase();
});
const all = [work('a', 40), work('b', 10), work('c', 10)];
console.log(limit.activeCount, limit.pendingCount);
console.log(await Promise.all(all), order, most, limit.activeCount);
await limit(() => { throw new Error('told'); }).catch((error) => console.log(error.message));
