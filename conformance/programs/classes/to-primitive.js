class Money {
  constructor(n) { this.n = n; }
  [Symbol.toPrimitive](hint) { return hint === 'number' ? this.n : hint === 'string' ? `$${this.n}` : `default ${this.n}`; }
  get [Symbol.toStringTag]() { return 'Money'; }
}
const m = new Money(5);
console.log(+m, `${m}`, m + '', m * 2, m == 'default 5', m > 4, Object.prototype.toString.call(m));
const old = { valueOf() { return 7; }, toString() { return 'seven'; } };
console.log(old + 1, `${old}`, old * 2, [old] + '', old + '', String(old));
const bad = { valueOf: () => ({}), toString: () => ({}) };
try { bad + 1; } catch (e) { console.log(e.name); }
console.log(new Date(0)[Symbol.toPrimitive]('number'), typeof new Date(0)[Symbol.toPrimitive]('default'));
