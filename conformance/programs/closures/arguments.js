function sloppyLike() { return [arguments.length, Array.from(arguments), [...arguments]]; }
console.log(sloppyLike(1, 'b', null));
function callee() { 'use strict'; try { return arguments.callee; } catch (e) { return e.name; } }
console.log(callee());
function strict(a) { 'use strict'; arguments[0] = 9; return a; }
console.log(strict(1));
console.log(Object.prototype.toString.call((function () { return arguments; })()));
const spread = (...a) => a.length;
console.log(spread(...[1, 2], ...'ab', ...new Set([1, 1]), ...new Map([[1, 2]])), Math.max(...[], 3, ...[9]));
function rest(a, ...r) { return [a, r, r instanceof Array]; }
console.log(rest(1), rest(1, 2, 3));
