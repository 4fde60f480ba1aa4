const a = [1, 2]; a.name = 'x'; a[-1] = 'neg'; a['1.5'] = 'f'; a[Symbol('s')] = 1; console.log(a);
const b = Array.from({ length: 10 }, (_, i) => i); b.extra = true; console.log(b);
const e = []; e.only = 1; console.log(e);
