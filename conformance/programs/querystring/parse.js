const qs = require('querystring');
for (const text of ['a=1&b=2&a=3', '', 'a', '=b', 'a=b=c', 'x=%E2%82%AC+z', 'a&&b', '%zz=1']) console.log(JSON.stringify(qs.parse(text)));
console.log(JSON.stringify(qs.parse('a:1;b:2', ';', ':')), JSON.stringify(qs.parse('a=1&b=2&c=3', null, null, { maxKeys: 2 })));
