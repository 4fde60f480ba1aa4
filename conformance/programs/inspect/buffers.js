console.log(new ArrayBuffer(0), new ArrayBuffer(3), new Uint8Array([255, 1, 16]).buffer, new ArrayBuffer(60));
console.log([new ArrayBuffer(2)], new Uint8Array(200).buffer);
const b = new ArrayBuffer(2); b.note = 1; console.log(b);
