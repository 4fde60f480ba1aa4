const parts = [Buffer.from('one'), new Uint8Array([32]), Buffer.from('two')];
console.log(Buffer.concat(parts).toString(), Buffer.concat(parts, 5).toString(), Buffer.concat(parts, 9).toString('hex'), Buffer.concat([]).length);
