const log = [];
const p = new Proxy({ a: 1, b: 2 }, new Proxy({}, { get: (_, trap) => (...args) => { log.push(trap); return Reflect[trap](...args); } }));
for (const k in p) log.push(k);
console.log(log.join(' '));
