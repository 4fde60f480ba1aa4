console.log(Buffer.from('01020304', 'hex').swap16().toString('hex'), Buffer.from('01020304', 'hex').swap32().toString('hex'), Buffer.from('0102030405060708', 'hex').swap64().toString('hex'));
try { Buffer.alloc(3).swap16(); } catch (error) { console.log(error.name); }
