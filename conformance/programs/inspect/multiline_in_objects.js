console.log({ f: function () {
  return 1;
}, a: { b: 'line\nline' } });
console.log({ longArray: Array.from({ length: 40 }, (_, i) => 'element-' + i), after: true });
