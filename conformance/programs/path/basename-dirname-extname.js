const path = require('path');
for (const text of ['/a/b.txt', 'b.tar.gz', '.profile', 'a/', '/', '', 'a.', 'dir.d/file', '..', '/a/b/']) console.log(JSON.stringify([text, path.basename(text), path.dirname(text), path.extname(text)]));
console.log(path.basename('/a/b.txt', '.txt'), path.basename('b.txt', 'b.txt'), path.basename('abc', 'c'));
