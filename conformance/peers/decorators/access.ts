const kept: any = {};
const keep = (_: any, context: any) => { kept[context.name] = context.access; };
class A {
  @keep field = 1;
  @keep method() { return this.field; }
  @keep get getter() { return 2; }
  @keep set setter(value: number) { this.field = value; }
  @keep accessor auto = 3;
  @keep #secret = 4;
  @keep #hidden() { return 5; }
  @keep accessor #inside = 6;
  secret() { return [this.#secret, this.#hidden(), this.#inside]; }
}
const a = new A();
for (const name of Object.keys(kept)) {
  const access = kept[name];
  console.log(name, access.has(a), access.has({}), 'get' in access && (typeof access.get(a) === 'function' ? access.get(a).name : access.get(a)));
}
kept['#secret'].set(a, 40);
kept['#inside'].set(a, 60);
kept.setter.set(a, 10);
kept.auto.set(a, 30);
console.log(a.secret(), a.field, a.auto, a.method());
try { kept['#secret'].get({}); } catch (e: any) { console.log(e.name); }
