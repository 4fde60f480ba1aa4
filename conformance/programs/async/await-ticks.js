const order = [];
const tick = async (name, n) => { for (let i = 0; i < n; i++) { await null; order.push(`${name}${i}`); } };
const thenable = { then(r) { order.push('then called'); r('thenable'); } };
async function returnsPromise() { return Promise.resolve('p'); }
async function returnsValue() { return 'v'; }
const all = Promise.all([
  tick('a', 5),
  returnsPromise().then((x) => order.push(x)),
  returnsValue().then((x) => order.push(x)),
  (async () => order.push(await thenable))(),
  Promise.resolve(Promise.resolve('same')).then((x) => order.push(x)),
  new Promise((r) => r(Promise.resolve('nested'))).then((x) => order.push(x)),
]);
await all;
console.log(order.join(' '));
