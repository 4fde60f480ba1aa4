console.log(Object.create(null));
const o = Object.create(null); o.x = 1; o.y = { z: 2 };
console.log(o, [o]);
console.log(Object.create(Object.create(null)));
console.log(Object.create({ inherited: 1 }));
