const upper = new TransformStream({ transform(chunk, controller) { controller.enqueue(chunk.toUpperCase()); }, flush(controller) { controller.enqueue('END'); } });
const source = new ReadableStream({ start(c) { c.enqueue('x'); c.enqueue('y'); c.close(); } });
const got = [];
await source.pipeThrough(upper).pipeTo(new WritableStream({ write(chunk) { got.push(chunk); }, close() { got.push('closed'); } }));
console.log(got.join());
