const p = new URLSearchParams('a=1&b=2&c=3');
const it = p.entries();
console.log(it.next().value.join(), Object.prototype.toString.call(it), it[Symbol.iterator]() === it);
for (const [key] of p) { if (key === 'a') p.delete('b'); console.log(key); }
console.log(Object.fromEntries(p).c, Object.prototype.toString.call(p), Object.prototype.toString.call(new URL('a:b')));
