const broken = new ReadableStream({ start(c) { c.error(new TypeError('broken')); } });
await broken.getReader().read().catch((error) => console.log(error.name, error.message));
const closed = new ReadableStream({ start(c) { c.close(); try { c.enqueue(1); } catch (error) { console.log(error.name); } } });
closed.getReader();
try { closed.getReader(); } catch (error) { console.log(error.name); }
await new ReadableStream({ pull() { throw new RangeError('pull'); } }).getReader().read().catch((error) => console.log(error.message));
