const a = { n: 1 }; a.self = a; console.log(a);
const b = { c: { d: {} } }; b.c.d.b = b; b.c.d.c = b.c; console.log(b);
const arr = [1]; arr.push(arr); console.log(arr);
const m = new Map(); m.set('me', m); console.log(m);
const s = new Set(); s.add(s); console.log(s);
class Node { constructor() { this.parent = null; this.children = []; } add(c) { c.parent = this; this.children.push(c); return this; } }
console.log(new Node().add(new Node()));
