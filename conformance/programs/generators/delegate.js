function* inner() { try { const x = yield 'i1'; yield x; return 'inner result'; } finally { console.log('inner done'); } }
function* outer() { yield 'o1'; const r = yield* inner(); yield r; yield* [1, 2]; yield* 'hi'; return 'end'; }
const g = outer();
console.log(g.next(), g.next(), g.next('sent'), g.next(), [...g]);
const h = outer();
h.next(); h.next();
console.log(h.return('r'));
const t = outer();
t.next(); t.next();
try { t.throw(new Error('into inner')); } catch (e) { console.log(e.message); }
function* tree(n) { if (n) { yield* tree(n - 1); yield n; yield* tree(n - 1); } }
console.log([...tree(4)].join(''));
const fib = { *[Symbol.iterator]() { let [a, b] = [0, 1]; for (;;) { yield a; [a, b] = [b, a + b]; } } };
const first = [];
for (const x of fib) { if (x > 100) break; first.push(x); }
console.log(first.join());
