const { relative } = require('path');
for (const [from, to] of [['/a/b/c', '/a/d'], ['/a', '/a'], ['/a/b', '/a/b/c/d'], ['/', '/x'], ['/foo/bar', '/foo/barbaz']]) console.log(JSON.stringify(relative(from, to)));
