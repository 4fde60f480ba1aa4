const words = new Uint16Array([1, 256, 65535]);
console.log(Buffer.from(words).toString('hex'), Buffer.from(words.buffer).toString('hex'), Buffer.from(words.buffer, 2, 2).toString('hex'), Buffer.from([257, -1, 3.7, '5']).toString('hex'), Buffer.from({ length: 2, 0: 9, 1: 8 }).toString('hex'));
const shared = Buffer.from(words.buffer);
words[0] = 0x4142;
console.log(shared[0].toString(16));
for (const bad of [5, null, undefined, {}]) try { Buffer.from(bad); } catch (error) { console.log(error.name); }
