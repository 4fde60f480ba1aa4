const qs = require('node:querystring');
console.log(qs.stringify({ a: 'x y', b: ['1', '2'], c: '', d: true, e: 5, f: null, g: undefined, h: { no: 1 }, 'ü': '€&=' }));
console.log(qs.stringify({ a: 1, b: 2 }, ';', ':'), qs.stringify('text'), qs.escape('a b&ü'), qs.unescape('a%20b%zz'));
