// A route table, a validator, a cache, a counter: what snippets do with decorators.
const routes = new Map<string, string>();
const get = (path: string) => (target: Function, context: ClassMethodDecoratorContext) => { routes.set(`GET ${path}`, String(context.name)); };
class Controller {
  @get('/users') users() { return ['a']; }
  @get('/users/:id') user(id: string) { return id; }
}
console.log([...routes]);

const required = <T>(_: undefined, context: ClassFieldDecoratorContext<T>) => { ((context.metadata as any).required ??= []).push(context.name); };
const check = (value: object) => ((value.constructor as any)[(Symbol as any).metadata]?.required ?? []).filter((name: any) => (value as any)[name] === undefined);
class User { @required name?: string; @required mail?: string; age = 1; }
console.log(check(Object.assign(new User(), { name: 'x' })));

function cached(method: any, _: ClassMethodDecoratorContext) {
  const results = new Map<string, unknown>();
  return function (this: unknown, ...given: unknown[]) {
    const key = JSON.stringify(given);
    if (!results.has(key)) results.set(key, method.apply(this, given));
    return results.get(key);
  };
}
class Sums { calls = 0; @cached fib(n: number): number { this.calls++; return n < 2 ? n : this.fib(n - 1) + this.fib(n - 2); } }
const sums = new Sums();
console.log(sums.fib(30), sums.calls);

function observed<T>(target: ClassAccessorDecoratorTarget<any, T>, context: ClassAccessorDecoratorContext<any, T>): ClassAccessorDecoratorResult<any, T> {
  return {
    get() { return target.get.call(this); },
    set(value) { this.changes.push([context.name, target.get.call(this), value]); target.set.call(this, value); },
  };
}
class Model { changes: unknown[] = []; @observed accessor title = 'old'; @observed accessor size = 1; }
const model = new Model();
model.title = 'new'; model.size += 1;
console.log(JSON.stringify(model.changes));

class Service { constructor(private readonly base: string, public log: string[] = []) {} @cached path(name: string) { this.log.push(name); return `${this.base}/${name}`; } }
const service = new Service('x'); service.path('a'); service.path('a');
console.log(service.path('b'), service.log);
enum Level { Low = 1, High }
const least = (level: Level) => (_: any, c: any) => (v: Level) => Math.max(v, level);
class Alarm { @least(Level.High) level = Level.Low; }
console.log(Level[new Alarm().level]);
async function timed() {
  const wait = (method: any) => async function (this: any, ...given: any[]) { await null; return method.apply(this, given); };
  class Slow { n = 2; @wait async double(x: number) { return x * this.n; } @wait async *[Symbol.asyncIterator]() { yield 1; } }
  console.log(await new Slow().double(4));
}
await timed();
