function* g() { yield 1; }
async function* ag() { yield 1; }
console.log(g(), ag(), g, ag);
