const b = Buffer.from([0xff, 0xfe, 0x00, 0x68, 0xe9, 0x3e, 0x3f]);
for (const encoding of ['hex', 'base64', 'base64url', 'latin1', 'binary', 'ascii', 'utf16le', 'ucs2']) console.log(encoding, JSON.stringify(b.toString(encoding)));
console.log(JSON.stringify(b.toString()), JSON.stringify(b.toString('utf8', 3, 4)));
