const { isAscii, isUtf8 } = require('buffer');
console.log(isAscii(Buffer.from('abc')), isAscii(Buffer.from('é')), isUtf8(Buffer.from('é')), isUtf8(new Uint8Array([0xc3])), isUtf8(new ArrayBuffer(0)));
const given = new ArrayBuffer(8);
structuredClone(given, { transfer: [given] });
for (const work of [() => isAscii(given), () => isUtf8(given), () => isUtf8(5)]) {
  try { console.log(work()); } catch (error) { console.log(error.name, error.code, error.message.slice(0, 40)); }
}
