const f = (x) => { const r = []; switch (x) { case 1: r.push('one'); case 2: r.push('two'); break; default: r.push('default'); case 3: r.push('three'); break; case NaN: r.push('nan'); case '1': { let scoped = 's'; r.push(scoped); } } return r.join('+'); };
console.log([1, 2, 3, 4, NaN, '1', null].map(f).join());
const order = []; const c = (v) => { order.push(v); return v; }; switch (c(2)) { case c(1): case c(2): order.push('hit'); case c(3): order.push('through'); } console.log(order.join());
switch (1) { case 1: let x = 'let in switch'; console.log(x); break; case 2: x = 1; }
switch (true) { case 1 > 2: console.log('no'); break; case 'a' < 'b': console.log('yes'); }
const g = (x) => { switch (typeof x) { case 'number': return 'n'; case 'string': return 's'; } return 'other'; }; console.log(g(1), g(''), g({}));
switch (3) { default: console.log('d'); case 1: console.log('falls'); } switch (0) {} switch (0) { case -0: console.log('minus zero'); }
