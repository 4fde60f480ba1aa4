console.log(new Set(), new Set([1, 'a', { b: 2 }]), new Set([new Set([new Set([new Set([1])])])]));
const s = new Set([1]); s.extra = 1; console.log(s);
console.log(new Set(Array.from({ length: 120 }, (_, i) => i)));
