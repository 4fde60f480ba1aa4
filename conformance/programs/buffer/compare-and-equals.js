const a = Buffer.from('abc'), b = Buffer.from('abd'), c = Buffer.from('ab');
console.log(Buffer.compare(a, b), Buffer.compare(b, a), Buffer.compare(a, a), a.compare(c), c.compare(a), a.equals(Buffer.from('abc')), a.equals(new Uint8Array([97, 98, 99])));
console.log([b, a, c].sort(Buffer.compare).map(String).join());
console.log(Buffer.from('xabcx').compare(a, 0, 3, 1, 4));
