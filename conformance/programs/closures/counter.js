const make = (start = 0) => {
  let n = start;
  return { next: () => ++n, peek: () => n };
};
const a = make();
const b = make(10);
a.next();
a.next();
b.next();
console.log(a.peek(), b.peek());
const later = [];
for (let i = 0; i < 3; i++) later.push(() => i * i);
console.log(later.map((f) => f()).join());
await new Promise((resolve) => setTimeout(resolve, 5));
setTimeout(() => console.log('after the end'), 1);
