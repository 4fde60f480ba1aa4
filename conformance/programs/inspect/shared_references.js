const shared = { s: 1 };
console.log({ a: shared, b: shared }, [shared, shared]);
