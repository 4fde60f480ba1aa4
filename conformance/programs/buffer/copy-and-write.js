const b = Buffer.alloc(10, '.');
console.log(b.write('hello', 2), b.toString(), b.write('wörld', 8), b.toString('latin1'), Buffer.from('12345').copy(b, 3, 1, 4), b.toString('latin1'), b.write('6162', 0, 'hex'), b.toString('latin1'));
