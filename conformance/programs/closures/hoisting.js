console.log(typeof hoisted, typeof later);
console.log(hoisted());
function hoisted() { return 'hoisted'; }
var later = 1;
const inBlock = [];
{
  inBlock.push(typeof local);
  function local() { return 1; }
  inBlock.push(local());
}
console.log(inBlock);
try {
  (() => { tdz; let tdz = 1; })();
} catch (e) {
  console.log(e.name, e instanceof ReferenceError);
}
console.log((function () { return typeof arguments; })(), (function f() { return typeof f; })());
const named = function inner() { try { inner = 1; } catch (e) { return e.name; } return typeof inner; };
console.log(typeof named());
