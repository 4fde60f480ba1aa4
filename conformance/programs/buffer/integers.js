const b = Buffer.alloc(24);
b.writeUInt8(255, 0); b.writeInt8(-1, 1); b.writeUInt16BE(0x1234, 2); b.writeUInt16LE(0x1234, 4); b.writeInt32BE(-2, 6); b.writeUInt32LE(0xdeadbeef, 10); b.writeIntBE(-3, 14, 3); b.writeUIntLE(0x123456, 17, 3);
console.log(b.toString('hex'));
console.log(b.readUInt8(0), b.readInt8(1), b.readUInt16BE(2), b.readUInt16LE(4), b.readInt32BE(6), b.readUInt32LE(10), b.readIntBE(14, 3), b.readUIntLE(17, 3));
