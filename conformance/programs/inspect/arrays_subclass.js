class Stack extends Array {}
console.log(Stack.from([1, 2]), new Stack(), new Stack(3));
const n = [1, 2]; Object.setPrototypeOf(n, null); console.log(n);
class Tagged extends Array { get [Symbol.toStringTag]() { return 'T'; } }
console.log(Tagged.of(1));
