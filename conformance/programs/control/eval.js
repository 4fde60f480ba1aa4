console.log((0, eval)('1 + 1'), eval('({ a: 1 })').a, eval('{ a: 1 }'), eval(''), eval('var q = 5; q * 2'), eval(5), eval('if (true) { 7 }'), eval('for (var i = 0; i < 3; i++) i'));
const local = (() => { const secret = 42; return eval('secret'); })(); console.log(local);
console.log(new Function('a', 'b', 'return a + b')(1, 2), Function('return typeof this')() !== undefined, new Function('...r', 'return r.length')(1, 2, 3), new Function('a = 1, { b } = {}', 'return [a, b]')());
try { eval('throw new RangeError("x")'); } catch (e) { console.log(e.name); } try { eval('}{'); } catch (e) { console.log(e.name); }
console.log((() => { 'use strict'; eval('var leak = 1'); return typeof leak; })());
