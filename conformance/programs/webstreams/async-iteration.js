let n = 0;
const stream = new ReadableStream({ pull(c) { if (n < 3) c.enqueue(n++); else c.close(); }, cancel(reason) { console.log('cancel', reason); } });
for await (const value of stream) console.log(value);
const other = new ReadableStream({ pull(c) { c.enqueue(1); }, cancel() { console.log('cancelled'); } });
for await (const value of other) { console.log(value); break; }
