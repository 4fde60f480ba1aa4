function F() { return new.target === undefined ? 'called' : new.target.name; }
class A { constructor() { this.t = new.target.name; } }
class B extends A {}
console.log(F(), new A().t, new B().t);
console.log(Reflect.construct(A, [], B).t, Reflect.construct(A, [], B) instanceof B);
const bound = F.bind(null);
console.log(bound(), typeof new bound());
function G() { const inner = () => new.target; return { inner: inner() === G }; }
console.log(new G().inner);
try { new (() => {})(); } catch (e) { console.log(e.name); }
try { new ({ m() {} }).m(); } catch (e) { console.log(e.name); }
try { A(); } catch (e) { console.log(e.name); }
