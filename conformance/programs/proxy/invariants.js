const frozen = Object.freeze({ a: 1 });
const bad = new Proxy(frozen, { get: () => 2, has: () => false, deleteProperty: () => true, ownKeys: () => [], getOwnPropertyDescriptor: () => undefined, set: () => true, defineProperty: () => true, getPrototypeOf: () => Array.prototype, isExtensible: () => true, setPrototypeOf: () => true, preventExtensions: () => true });
const tries = {
  get: () => bad.a, has: () => 'a' in bad, delete: () => delete bad.a, keys: () => Object.keys(bad), descriptor: () => Object.getOwnPropertyDescriptor(bad, 'a'),
  set: () => { 'use strict'; bad.a = 2; }, define: () => Object.defineProperty(bad, 'b', { value: 1, configurable: false }), proto: () => Object.getPrototypeOf(bad), extensible: () => Object.isExtensible(bad),
  setProto: () => Object.setPrototypeOf(bad, {}), prevent: () => Object.preventExtensions(new Proxy({}, { preventExtensions: () => true })), falseSet: () => { 'use strict'; new Proxy({}, { set: () => false }).x = 1; },
  falseDelete: () => { 'use strict'; delete new Proxy({ x: 1 }, { deleteProperty: () => false }).x; }, keysType: () => Object.keys(new Proxy({}, { ownKeys: () => [1] })), dup: () => Object.keys(new Proxy({}, { ownKeys: () => ['a', 'a'] })), construct: () => new (new Proxy(class {}, { construct: () => 1 }))(),
};
for (const [k, f] of Object.entries(tries)) { try { console.log(k, f()); } catch (e) { console.log(k, e.name); } }
