class T { get [Symbol.toStringTag]() { return 'Tag'; } }
console.log(new T(), { [Symbol.toStringTag]: 'own' }, Object.create({ [Symbol.toStringTag]: 'inherited' }));
class U { get [Symbol.toStringTag]() { return 'U'; } a = 1; } console.log(new U());
const n = Object.create(null); Object.defineProperty(n, Symbol.toStringTag, { value: 'N' }); console.log(n);
console.log(Math, JSON, Reflect);
