class A {} class B extends A {} class C extends B { static s = 1; }
console.log(A, B, C, class {}, class extends A {}, [A]);
class N extends null {} console.log(N);
class Q { static [Symbol.toStringTag] = 'q'; } console.log(Q);
console.log(Map, Object, RangeError.name, Promise);
