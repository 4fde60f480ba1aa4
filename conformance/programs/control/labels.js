const out = [];
outer: for (let i = 0; i < 3; i++) { inner: for (let j = 0; j < 3; j++) { if (j === 1) continue outer; if (i === 2) break outer; out.push(`${i}${j}`); } }
block: { out.push('in'); if (out.length) break block; out.push('never'); }
a: b: for (;;) { break a; }
let n = 0; loop: do { n++; switch (n) { case 1: continue loop; case 2: break; case 3: break loop; } out.push(`n${n}`); } while (n < 10);
w: while (true) { for (const x of [1, 2]) { try { if (x === 2) break w; } finally { out.push(`x${x}`); } } }
label: for (const k in { a: 1, b: 2 }) { for (;;) { if (k === 'a') continue label; break label; } }
console.log(out.join(), n);
