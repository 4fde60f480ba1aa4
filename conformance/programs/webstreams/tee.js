const [a, b] = new ReadableStream({ start(c) { c.enqueue(1); c.enqueue(2); c.close(); } }).tee();
const all = async (stream) => { const got = []; for await (const x of stream) got.push(x); return got.join(); };
console.log(await all(a), await all(b));
