console.log(['x'.repeat(10001)]);
console.log(['y'.repeat(10010)].length);
console.log({ s: 'z'.repeat(10002) });
