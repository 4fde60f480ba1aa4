const order = [];
setTimeout(() => order.push('timeout 10'), 10);
setTimeout(() => order.push('timeout 1'), 1);
queueMicrotask(() => order.push('micro'));
Promise.resolve().then(() => order.push('promise'));
order.push('sync');
await new Promise((resolve) => setTimeout(resolve, 30));
console.log(order.join());
