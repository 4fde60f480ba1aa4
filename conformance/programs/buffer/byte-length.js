for (const text of ['', 'a', 'é', '€', '😀', 'aé€😀']) console.log(text, Buffer.byteLength(text), Buffer.byteLength(text, 'utf16le'), Buffer.byteLength(text, 'latin1'));
console.log(Buffer.byteLength('aGVsbG8=', 'base64'), Buffer.byteLength('aGVsbG8', 'base64url'), Buffer.byteLength('abcd', 'hex'));
console.log(Buffer.byteLength(new ArrayBuffer(7)), Buffer.byteLength(new Uint16Array(3)));
