const url = require('url');
console.log(url.format({ protocol: 'https', hostname: 'x.com', port: 81, pathname: '/p', query: { a: 1, b: ['c', 'd'] }, hash: 'h' }));
console.log(url.format(new URL('http://u:p@münchen.de/a?b#c'), { auth: false, fragment: false, search: false }));
for (const [from, to] of [['/one/two/three', 'four'], ['http://example.com/', '/one'], ['http://example.com/one', '/two'], ['http://a/b/c', '../d?x']]) console.log(url.resolve(from, to));
