class Semaphore {
  #free; #queue = [];
  constructor(n) { this.#free = n; }
  async use(f) {
    if (this.#free === 0) await new Promise((r) => this.#queue.push(r)); else this.#free--;
    try { return await f(); } finally { const next = this.#queue.shift(); if (next) next(); else this.#free++; }
  }
}
const s = new Semaphore(2);
let running = 0, most = 0;
const results = await Promise.all(Array.from({ length: 6 }, (_, i) => s.use(async () => {
  most = Math.max(most, ++running);
  await new Promise((r) => setTimeout(r, 2 + i));
  running--;
  return i * i;
})));
console.log(results, most, running);
