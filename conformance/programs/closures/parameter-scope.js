function f(x, g = () => x) { x = 'changed'; return g(); }
console.log(f('arg'));
function h(x, g = () => x) { var x; x = 'changed'; return [x, g()]; }
console.log(h('arg'));
