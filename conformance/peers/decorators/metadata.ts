const META: symbol = (Symbol as any).metadata;
const tag = (value: string) => (_: unknown, context: DecoratorContext) => { ((context.metadata as any).tags ??= []).push(`${String(context.name)}:${value}`); };
const own = (_: unknown, context: DecoratorContext) => { (context.metadata as any)[context.name!] = context.kind; };
@own class A { @tag('a') x = 1; @own y() {} }
class B extends A { @own z = 2; @tag('b') override x = 3; }
@own class C extends B {}
const of = (it: any) => it[META];
console.log(of(A), Object.keys(of(B)), of(B).tags === of(A).tags, of(C).z, Object.getPrototypeOf(of(B)) === of(A), Object.getPrototypeOf(of(A)));
console.log(Object.getOwnPropertyDescriptor(A, META)!.enumerable, Object.getOwnPropertyDescriptor(A, META)!.writable);
console.log(of(class {}) === undefined, Object.getOwnPropertySymbols(A).length);
