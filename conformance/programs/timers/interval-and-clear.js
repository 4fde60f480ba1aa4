let n = 0;
await new Promise((resolve) => { const handle = setInterval(() => { n += 1; if (n === 3) { clearInterval(handle); resolve(); } }, 2); });
const never = setTimeout(() => console.log('never'), 5);
clearTimeout(never);
clearTimeout(undefined);
clearTimeout(12345);
await new Promise((resolve) => setTimeout(resolve, 15));
console.log(n);
