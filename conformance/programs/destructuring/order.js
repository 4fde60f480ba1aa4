const log = [];
const src = new Proxy({ a: 1, b: undefined, c: 3, d: 4 }, {
  get(t, k) { log.push(`get ${String(k)}`); return t[k]; },
  ownKeys(t) { log.push('ownKeys'); return Reflect.ownKeys(t); },
  getOwnPropertyDescriptor(t, k) { log.push(`desc ${String(k)}`); return Reflect.getOwnPropertyDescriptor(t, k); },
});
const key = (k) => { log.push(`key ${k}`); return k; };
const def = (v) => { log.push(`default ${v}`); return v; };
const { [key('a')]: x = def('x'), [key('b')]: y = def('y'), ...rest } = src;
console.log(x, y, rest);
console.log(log.join('\n'));
