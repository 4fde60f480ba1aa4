class Point { constructor(x, y) { this.x = x; this.y = y; } }
class Point3 extends Point { z = 3; #hidden = 1; }
console.log(new Point(1, 2), new Point3(1, 2), [new Point(0, 0)], { p: new Point(new Point(1, 2), new Point(3, 4)) });
class Empty {} console.log(new Empty(), [new Empty()], { e: { e: { e: new Empty() } } });
function Old() { this.v = 1; } console.log(new Old());
console.log(Point.prototype, Point3.prototype);
const renamed = new (class { static name = 'Named'; a = 1; })(); console.log(renamed);
console.log(new (class {})(), new (class { a = 1; })());
