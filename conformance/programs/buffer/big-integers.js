const b = Buffer.alloc(16);
b.writeBigInt64BE(-5n, 0); b.writeBigUInt64LE(0xffffffffffffffffn, 8);
console.log(b.toString('hex'), b.readBigInt64BE(0), b.readBigUInt64LE(8), b.readBigInt64LE(8));
