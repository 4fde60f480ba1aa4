const e = new TextEncoder();
for (const text of ['', 'a', 'é', '€', '😀', '\ud800', 'a\udc00b', undefined]) console.log(e.encode(text).join());
console.log(e.encoding, e.encode(5).join(), e.encode(null).join());
