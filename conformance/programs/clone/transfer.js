const b = new ArrayBuffer(4); new Uint8Array(b)[0] = 7;
const c = structuredClone({ b }, { transfer: [b] });
console.log(b.byteLength, c.b.byteLength, new Uint8Array(c.b)[0]);
try { structuredClone(b); } catch (e) { console.log(e.name); }
try { structuredClone(1, { transfer: [1] }); } catch (e) { console.log(e.name); }
try { structuredClone(); } catch (e) { console.log(e.name); }
