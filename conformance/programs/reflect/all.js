const o = Object.defineProperty({ b: 1, a: 2, 1: 'n', [Symbol('s')]: 3 }, 'hidden', { value: 4 });
console.log(Reflect.ownKeys(o).map(String), Reflect.has(o, 'hidden'), Reflect.get(o, 'hidden'));
console.log(Reflect.set(o, 'hidden', 5), Reflect.set(o, 'new', 1), o.new, Reflect.deleteProperty(o, 'hidden'), Reflect.deleteProperty(o, 'b'));
console.log(Reflect.apply(Math.max, null, [1, 3, 2]), Reflect.construct(Date, [0]).toISOString(), Reflect.getPrototypeOf([]) === Array.prototype);
console.log(Reflect.defineProperty(o, 'x', { value: 1 }), Reflect.defineProperty(o, 'x', { value: 2 }), Reflect.isExtensible(o), Reflect.preventExtensions(o), Reflect.defineProperty(o, 'y', {}));
console.log(Reflect.getOwnPropertyDescriptor(o, 'x'), Reflect.setPrototypeOf(o, {}), Reflect.setPrototypeOf({}, null));
const receiver = {};
Reflect.set({ set v(x) { this.got = x; } }, 'v', 7, receiver);
console.log(receiver, Object.prototype.toString.call(Reflect), Reflect.ownKeys(class { static m() {} }));
for (const f of [() => Reflect.get(1, 'x'), () => Reflect.apply(1), () => Reflect.construct(() => {}, []), () => Reflect.ownKeys('s'), () => Reflect.setPrototypeOf({}, 1)]) try { f(); } catch (e) { console.log(e.name); }
