const stream = new ReadableStream({ start(c) { c.enqueue('a'); c.enqueue('b'); c.close(); } });
const reader = stream.getReader();
console.log(stream.locked, JSON.stringify(await reader.read()), JSON.stringify(await reader.read()), JSON.stringify(await reader.read()));
await reader.closed;
reader.releaseLock();
console.log(stream.locked);
