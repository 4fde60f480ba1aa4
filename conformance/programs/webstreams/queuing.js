const counted = new ReadableStream({ start(c) { console.log(c.desiredSize); c.enqueue('abc'); console.log(c.desiredSize); } }, new CountQueuingStrategy({ highWaterMark: 3 }));
const sized = new ReadableStream({ start(c) { c.enqueue(new Uint8Array(4)); console.log(c.desiredSize); } }, new ByteLengthQueuingStrategy({ highWaterMark: 10 }));
console.log(counted.locked, sized.locked, new CountQueuingStrategy({ highWaterMark: 1 }).size('x'));
