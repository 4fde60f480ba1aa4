const out = [];
await new Promise((done) => {
  setTimeout(() => {
    out.push('a');
    setTimeout(() => { out.push('b'); queueMicrotask(() => out.push('b micro')); setTimeout(() => { out.push('c'); done(); }, 2); }, 2);
    out.push('a end');
  }, 2);
});
console.log(out.join());
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const worker = async (name, ms, n) => { for (let i = 0; i < n; i++) { await sleep(ms); out.push(name + i); } return name; };
out.length = 0;
console.log(await Promise.race([worker('slow', 200, 1), worker('fast', 20, 3)]));
console.log(out.join());
