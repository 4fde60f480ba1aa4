class Registry extends Map { constructor(e) { super(e); this.own = 1; } }
console.log(new Registry([[1, 2]]), new Registry());
class Bag extends Set {}
console.log(new Bag([1]), [new Bag()]);
const m = new Map([[1, 2]]); Object.setPrototypeOf(m, null); console.log(m);
