function* talk() {
  const a = yield 'first';
  console.log('got', a);
  try { const b = yield a * 2; console.log('got', b); } catch (e) { console.log('caught', e); yield 'recovered'; } finally { console.log('finally'); }
  return 'done';
}
const g = talk();
console.log(g.next('ignored'), g.next(21), g.throw('err'), g.next(), g.next());
const h = talk();
h.next();
console.log(h.return('early'), h.next());
const k = talk();
k.next(); k.next(1);
console.log(k.return('in try'), k.next());
try { talk().throw(new Error('before start')); } catch (e) { console.log(e.message); }
function* stubborn() { try { yield 1; } finally { yield 'cleanup'; } }
const s = stubborn();
s.next();
console.log(s.return('x'), s.next(), s.next());
