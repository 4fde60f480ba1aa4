const log = (tag: string) => (method: any, { name }: any) => function (this: any, ...given: any[]) {
  console.log(tag, String(name), given);
  return method.apply(this, given);
};
const bound = (method: any, { name, addInitializer }: any) => { addInitializer(function (this: any) { this[name] = this[name].bind(this); }); };
const memo = (getter: any, { name }: any) => function (this: any) {
  const value = getter.call(this);
  Object.defineProperty(this, name, { value });
  return value;
};
const times = (by: number) => (_: any, c: any) => (value: number) => value * by;
const clamp = (low: number, high: number) => ({ get, set }: any, c: any) => ({
  set(value: number) { set.call(this, Math.min(Math.max(value, low), high)); },
  init(value: number) { return Math.min(Math.max(value, low), high); },
});
class Thing {
  count = 0;
  @times(2) @times(3) price = 7;
  @clamp(0, 10) accessor level = 99;
  @log('outer') @log('inner') add(a: number, b: number) { return a + b; }
  @bound who() { return this.price; }
  @memo get slow() { this.count++; return 'made'; }
  @log('static') static make() { return new this(); }
  @log('private') #hidden(x: number) { return x * this.price; }
  hidden(x: number) { return this.#hidden(x); }
}
const thing = Thing.make();
console.log(thing.add(1, 2), thing.price, thing.level, thing.hidden(2));
thing.level = -5;
console.log(thing.level, thing.slow, thing.slow, thing.count);
const { who } = thing;
console.log(who());
class Base { greet(name: string) { return `hello ${name}`; } }
class Derived extends Base {
  @log('over') override greet(name: string) { return super.greet(name) + '!'; }
}
console.log(new Derived().greet('you'));
