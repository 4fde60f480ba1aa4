import qs from 'qs';
console.log(qs.parse('a[b][c]=d&e[]=1&e[]=2&f.g=h&i=%C3%A4&__proto__[x]=1', { allowDots: true }));
console.log(qs.stringify({ a: { b: ['c', { d: 'e f' }] }, n: null, u: undefined, t: new Date(0) }), qs.stringify({ a: [1, 2] }, { arrayFormat: 'comma', encode: false }));
console.log(qs.parse('?x=1;y=2', { ignoreQueryPrefix: true, delimiter: ';' }), qs.parse('a=%u4E', { charset: 'iso-8859-1' }));
