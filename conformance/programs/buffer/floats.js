const b = Buffer.alloc(12);
console.log(b.writeFloatBE(1.5, 0), b.writeDoubleLE(-Math.PI, 4), b.toString('hex'), b.readFloatBE(0), b.readDoubleLE(4));
