const b = new ArrayBuffer(4, { maxByteLength: 16 });
const all = new Uint8Array(b), fixed = new Uint8Array(b, 0, 4), tail = new Uint8Array(b, 2);
all.set([1, 2, 3, 4]);
b.resize(8); console.log(all.length, fixed.length, tail.length, String(all), b.resizable, b.maxByteLength);
b.resize(3); console.log(all.length, fixed.length, tail.length, fixed.byteLength, [...tail]);
b.resize(1); console.log(tail.length, tail.byteOffset, all[0], all[2]);
try { [...tail]; } catch (e) { console.log(e.name); }
b.resize(16); console.log(String(all), fixed.length, [...fixed]);
try { b.resize(17); } catch (e) { console.log(e.name); }
try { new ArrayBuffer(8).resize(4); } catch (e) { console.log(e.name); }
const g = new ArrayBuffer(4, { maxByteLength: 8 }), w = new Uint8Array(g); const seen = [];
for (const x of w) { seen.push(x); if (seen.length === 2) g.resize(8); }
console.log(seen.length, b.slice(0, 2).resizable);
