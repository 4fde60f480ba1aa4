let runs = 0;
console.log({ get a() { runs++; return 1; }, set b(v) {}, get c() { return 1; }, set c(v) {} });
class A { get x() { runs++; return 1; } }
console.log(new A(), runs);
console.log(Object.defineProperty([], 0, { get() { return 5; }, enumerable: true }));
