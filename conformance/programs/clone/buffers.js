const b = new ArrayBuffer(8); const u = new Uint8Array(b, 2, 4); u.set([1, 2, 3, 4]); const f = new Float32Array(b, 4, 1);
const c = structuredClone({ b, u, f, v: new DataView(b, 1, 3) });
console.log(c.u.buffer === c.b, c.f.buffer === c.b, c.v.buffer === c.b, c.u.byteOffset, c.u.length, String(c.u), c.b.byteLength, c.v.byteLength, c.v.getUint8(1)); c.u[0] = 99; console.log(u[0], new Uint8Array(c.b)[2]);
console.log(structuredClone(new BigInt64Array([1n, -1n])).join(), structuredClone(new Uint8ClampedArray([300]))[0], structuredClone(new Float64Array([NaN, -0])).map((x) => x).length, structuredClone(new Uint8Array(0)).length, structuredClone(new Int16Array([1, 2, 3]).subarray(1)).buffer.byteLength);
class U extends Uint8Array {} console.log(structuredClone(new U(2)).constructor.name, structuredClone([new Uint8Array([1]), new Uint8Array([2])]).map(String).join('|'));
