console.log(Buffer.alloc(5).toString('hex'), Buffer.alloc(5, 'ab').toString(), Buffer.alloc(4, 7).toString('hex'), Buffer.alloc(6, 'YWI=', 'base64').toString());
const b = Buffer.alloc(8);
console.log(b.fill('xyz', 2).toString('hex'), b.fill(0x41, 1, 3).toString('hex'), b.fill('').toString('hex'));
