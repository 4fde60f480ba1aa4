const Serial = (Base) => class extends Base { json() { return JSON.stringify(this); } };
const Event = (Base) => class Event extends Base {
  handlers = [];
  on(f) { this.handlers.push(f); return this; }
  emit(...a) { return this.handlers.map((f) => f.apply(this, a)); }
};
class Point { constructor(x, y) { this.x = x; this.y = y; } }
class Fancy extends Serial(Event(Point)) {}
const p = new Fancy(1, 2).on(function (k) { return this.x + k; });
console.log(p.json(), p.emit(10));
let chain = [];
for (let q = p; q; q = Object.getPrototypeOf(q)) chain.push(q.constructor.name);
console.log(chain);
console.log(Fancy.name, Object.getPrototypeOf(Fancy).name, Point.isPrototypeOf(Fancy));
