console.log([1, , 3], [, ,], [, 1], new Array(5), new Array(1));
const a = []; a[5] = 1; a[100000] = 2; console.log(a);
const b = [1, 2, 3]; delete b[1]; console.log(b);
const c = Array(120).fill(0); delete c[3]; console.log(c);
const d = []; for (let i = 0; i < 250; i += 2) d[i] = i; console.log(d);
