const b = Buffer.alloc(4);
for (const work of [() => b.readUInt32BE(1), () => b.writeUInt8(256, 0), () => b.readInt8(4), () => b.writeInt16LE(40000, 0), () => Buffer.alloc(-1)]) {
  try { work(); console.log('no error'); } catch (error) { console.log(error.name, error instanceof RangeError); }
}
