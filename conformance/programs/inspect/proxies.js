const traps = new Proxy({}, { get() { throw new Error('trap'); } });
console.log(new Proxy({ a: 1 }, traps), new Proxy([1, 2], traps), new Proxy(function f() {}, traps), new Proxy(class A {}, traps));
console.log({ p: new Proxy({ deep: { x: 1 } }, {}) }, new Proxy(new Proxy({ inner: 1 }, {}), {}));
const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); console.log(proxy, [proxy]);
console.log(new Proxy(new Map([[1, 2]]), {}), new Proxy(new Date(0), {}));
