const order = [];
const note = (x) => { order.push(x); return x; };
class A {
  [note('computed')] = note('field');
  static [note('static computed')] = note('static field');
  static { note('static block'); this.fromBlock = this['static computed']; }
  method() { return this.bound(); }
  bound = () => this.computed;
  'quoted name' = 1;
  42 = 'number';
}
const a = new A();
console.log(order.join(' | '));
console.log(a.method(), A.fromBlock, a['quoted name'], a[42], Object.keys(a));
class B extends A { computed = 'b'; constructor() { order.length = 0; super(); note('after super'); } bare; }
const b = new B();
console.log(order.join(), b.computed, 'bare' in b, b.bare);
