console.log([Symbol.prototype.constructor === Symbol, typeof globalThis]);
console.log(Object.getOwnPropertyDescriptor({ get a() { return 1; } }, 'a'));
console.log(Object.getOwnPropertyDescriptors({ a: 1, get b() { return 1; } }));
