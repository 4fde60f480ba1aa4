class Animal {
  static count = 0;
  static make(...a) { return new this(...a); }
  constructor(name) { this.name = name; Animal.count++; }
  speak() { return `${this.name} makes a sound`; }
  get loud() { return this.speak().toUpperCase(); }
}
class Dog extends Animal {
  speak() { return `${super.speak()}: woof`; }
  get loud() { return `${super.loud}!`; }
  static make(name) { return super.make(`dog ${name}`); }
}
const d = Dog.make('rex');
console.log(d.speak(), d.loud, d instanceof Animal, Object.getPrototypeOf(Dog) === Animal, Animal.count, Dog.count);
console.log(Object.getOwnPropertyNames(Dog.prototype), Object.keys(d), d.constructor.name);
class NoSuper extends Animal { constructor() { try { this.x = 1; } catch (e) { console.log(e.name); } super('late'); } }
console.log(new NoSuper().name);
class Null extends null { static ok() { return 1; } }
console.log(Null.ok(), Object.getPrototypeOf(Null.prototype));
try { new Null(); } catch (e) { console.log(e.name); }
try { class X extends 5 {} } catch (e) { console.log(e.name); }
