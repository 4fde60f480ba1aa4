const b = Buffer.from([1, 2, 3, 4]);
console.log(b instanceof Uint8Array, ArrayBuffer.isView(b), Buffer.isBuffer(b), Buffer.isBuffer(new Uint8Array(1)), b.byteLength, [...b].join(), b.map((x) => x * 2).join(), b.reverse().join());
console.log(Object.prototype.toString.call(b), [...b.entries()].join(';'), [...b.keys()].join());
