console.log(new Uint8Array([1, 2, 3]), new Float32Array([1.5, -0]), new BigInt64Array([1n, -2n]), new Uint8Array(0), new Uint8ClampedArray(2));
console.log(new Int16Array(150), new Float64Array([NaN, Infinity]));
console.log({ t: new Uint32Array(3), deep: { deep: { deep: new Int8Array(2) } } });
const t = new Uint8Array(2); t.note = 'n'; console.log(t);
class Bytes extends Uint8Array {} console.log(new Bytes(2));
