import Promise from 'bluebird';
const order = [];
const results = await Promise.map([3, 1, 2], (n) => Promise.delay(n * 5).then(() => { order.push(n); return n * n; }), { concurrency: 3 });
console.log(results, order);
console.log(await Promise.reduce([1, 2, 3], (sum, n) => sum + n, 10));
await Promise.try(() => { throw new TypeError('typed'); }).catch(TypeError, (error) => console.log('caught', error.message));
console.log(await Promise.any([Promise.reject(new Error('a')), Promise.resolve('b')]));
await Promise.delay(50).timeout(5, 'too slow').catch(Promise.TimeoutError, (error) => console.log(error.name, error.message));
