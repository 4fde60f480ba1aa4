function plain(a, b) { return a + b; }
console.log(plain.toString());
console.log(String((x) => { return x; }));
