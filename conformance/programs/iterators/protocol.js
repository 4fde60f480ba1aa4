const log = [];
const make = (n) => ({
  i: 0,
  [Symbol.iterator]() { log.push('iter'); return this; },
  next(v) { log.push(`next`); return this.i < n ? { value: this.i++, done: false } : { value: 'end', done: true }; },
  return(v) { log.push('return'); return { done: true, value: v }; },
});
for (const x of make(3)) if (x === 1) break;
console.log(log.splice(0).join());
const [a, b] = make(5);
console.log(a, b, log.splice(0).join());
const [c, ...rest] = make(3);
console.log(c, rest, log.splice(0).join());
try { for (const x of make(3)) throw new Error('stop'); } catch (e) { console.log(e.message, log.splice(0).join()); }
console.log(Math.max(...make(4)), Array.from(make(2), (x) => x * 2), log.splice(0).length);
outer: for (const x of make(2)) for (const y of make(2)) { if (y) continue outer; }
console.log(log.splice(0).join());
const [] = make(1);
console.log(log.splice(0).join());
new Map([[1, 2]]).entries().next().value.push(3);
try { for (const x of { [Symbol.iterator]() { return {}; } }); } catch (e) { console.log(e.name); }
try { [...{}]; } catch (e) { console.log(e.name); }
try { const [z] = null; } catch (e) { console.log(e.name); }
