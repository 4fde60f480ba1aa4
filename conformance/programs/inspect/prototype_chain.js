console.log(Object.prototype, Array.prototype, Function.prototype.constructor === Function);
class A {} const a = new A(); Object.setPrototypeOf(A.prototype, null); console.log(a);
function F() {} F.prototype = { constructor: undefined, x: 1 }; console.log(new F());
const o = Object.create({ constructor: 'text' }); console.log(o);
