const show = (value: any, context: any) => {
  const { access, metadata, addInitializer, ...rest } = context;
  console.log(typeof value === 'function' ? value.name : typeof value === 'object' ? Object.keys(value) : value, Object.keys(context), rest, access && Object.keys(access), typeof metadata, typeof addInitializer);
};
const symbol = Symbol('made');
@show
class Everything {
  @show method() {}
  @show static staticMethod() {}
  @show async asynchronous() {}
  @show *generator() {}
  @show get getter() { return 1; }
  @show set setter(value: number) {}
  @show field = 1;
  @show static staticField = 2;
  @show empty: string | undefined;
  @show accessor auto = 3;
  @show static accessor staticAuto = 4;
  @show #method() { return 1; }
  @show get #getter() { return 1; }
  @show set #setter(value: number) {}
  @show #field = 5;
  @show static #staticField = 6;
  @show accessor #auto = 7;
  @show [symbol]() {}
  @show ['computed' + 1] = 8;
  @show 'with space'() {}
  @show 42() {}
}
console.log(Object.getOwnPropertyNames(Everything.prototype), Object.getOwnPropertyNames(Everything), Object.keys(new Everything()));
