const registry: string[] = [];
const register = (value: any, { name }: any) => { registry.push(name); };
const withId = (value: any, context: any) => class extends value { id = context.name + registry.length; };
@register class A { static count = 1; static me() { return A; } }
@register @withId class B extends A { who() { return B; } static made = new B(); }
const C = @register class Named {};
const D = @register class {};
console.log(registry, A.me() === A, A.count, A.name, C.name, D.name);
const b: any = new B();
console.log(b.id, b.who() === B, b instanceof A, B.made instanceof B, (B.made as any).id);
function make<T extends new (...args: any[]) => object>(tag: string) {
  return (value: T, context: ClassDecoratorContext<T>) => class extends value { tag = tag; };
}
@make('one') class F { x: number; constructor(x: number) { this.x = x; } }
console.log(JSON.stringify(new F(3)), F.length);
const wrapped = (value: any, { addInitializer }: any) => { addInitializer(function (this: any) { this.late = this.early + 1; }); };
@wrapped class G { static early = 1; static late: number; }
console.log(G.late);
for (const n of [1, 2]) {
  @register class H { n = n; }
  console.log(new H().n, H.name);
}
console.log(registry);
