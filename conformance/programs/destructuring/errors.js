const tries = {
  null: () => { const { a } = null; },
  undefined: () => { const [a] = undefined; },
  'not iterable': () => { const [a] = {}; },
  nested: () => { const { a: { b } } = {}; },
  param: () => (({ a }) => a)(),
  'const again': () => { const { a } = { a: 1 }; a = 2; },
  getter: () => { const { a } = { get a() { throw new RangeError('g'); } }; },
  number: () => { const {} = 5; return 'fine'; },
  tdz: () => { const { a = b, b } = {}; },
};
for (const [k, f] of Object.entries(tries)) {
  try { console.log(k, f()); } catch (e) { console.log(k, e.name); }
}
