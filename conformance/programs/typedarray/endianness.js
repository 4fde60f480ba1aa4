const v = new DataView(new ArrayBuffer(16), 2, 12);
v.setFloat64(0, -1.5); console.log(Array.from(new Uint8Array(v.buffer), (x) => x.toString(16).padStart(2, '0')).join(' '));
v.setUint32(0, 0xdeadbeef, true); console.log(v.getUint32(0).toString(16), v.getInt32(0), v.getUint8(0), v.getInt8(0), v.byteOffset, v.byteLength);
v.setBigUint64(4, 0x0102030405060708n); console.log(v.getBigUint64(4, true).toString(16), v.getUint16(4), v.getInt16(4, true));
v.setFloat32(0, NaN); console.log(v.getFloat32(0), v.getUint32(0).toString(16)); v.setFloat32(0, -0); console.log(Object.is(v.getFloat32(0), -0));
v.setInt8(0, 200); v.setUint8(1, -1); v.setInt16(2, 1e5); console.log(v.getInt8(0), v.getUint8(1), v.getInt16(2));
const f = new Float32Array(1), i = new Uint32Array(f.buffer); f[0] = 1; console.log(i[0].toString(16)); i[0] = 0x7f800000; console.log(f[0]); i[0] = 1; console.log(f[0]);
for (const g of [() => v.getInt32(9), () => v.setInt8(-1, 0), () => v.getInt8(Infinity), () => v.setBigInt64(0, 1)]) try { g(); } catch (e) { console.log(e.name); }
