const d = (name: string): any => {
  console.log('evaluate', name);
  return (value: any, context: any) => {
    console.log('apply', name, context.kind);
    context.addInitializer(function (this: any) { console.log('run', name, this === undefined ? 'nothing' : typeof this); });
  };
};
const key = (name: string) => { console.log('key', name); return name; };
@d('class 1')
@d('class 2')
class Order extends (console.log('heritage'), Object) {
  @d('field') [key('field')] = console.log('init field');
  @d('method') [key('method')]() {}
  @d('static field') static [key('staticField')] = console.log('init static field');
  @d('static method') static staticMethod() {}
  @d('getter') get [key('getter')]() { return 1; }
  @d('auto 1') @d('auto 2') accessor auto = console.log('init auto');
  @d('static auto') static accessor staticAuto = console.log('init static auto');
  plain = console.log('plain');
  constructor() {
    super();
    console.log('constructor');
  }
}
console.log('new');
new Order();
class Sub extends Order {
  @d('sub') sub = console.log('init sub');
}
new Sub();
