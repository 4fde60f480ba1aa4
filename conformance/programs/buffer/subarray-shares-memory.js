const b = Buffer.from('abcdef');
const part = b.subarray(1, 4);
part[0] = 0x5a;
console.log(b.toString(), part.toString(), part instanceof Buffer, b.slice(-2).toString(), Buffer.from(b).equals(b), b.subarray(-3, -1).toString());
const copy = Buffer.from(b);
copy[0] = 0;
console.log(b[0], copy[0]);
