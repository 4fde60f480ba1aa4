const stream = new ReadableStream({ type: 'bytes', pull(c) { c.enqueue(new Uint8Array([1, 2, 3, 4, 5])); c.close(); } });
const reader = stream.getReader({ mode: 'byob' });
const first = await reader.read(new Uint8Array(2));
console.log([...first.value].join(), first.done);
const next = await reader.read(new Uint8Array(10));
console.log([...next.value].join(), next.done, (await reader.read(new Uint8Array(1))).done);
