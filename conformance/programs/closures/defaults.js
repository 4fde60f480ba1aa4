const order = [];
const note = (n) => { order.push(n); return n; };
function f(a = note('a'), b = a + note('b'), { c = note('c'), d } = { d: note('d') }, ...rest) {
  return [a, b, c, d, rest];
}
console.log(f());
console.log(f(undefined, undefined, {}, 1, 2));
console.log(f(null, 0, { c: undefined, d: 4 }));
console.log(order.join(''));
console.log(f.length, ((a, b) => 0).length, ((a, b = 1, c) => 0).length, ((...r) => 0).length);
