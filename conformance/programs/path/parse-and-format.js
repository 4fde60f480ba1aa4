const path = require('path');
for (const text of ['/home/user/file.txt', './a/b.c', 'x', '/', '', '.x']) console.log(JSON.stringify(path.parse(text)), path.format(path.parse(text)));
console.log(path.format({ dir: '/a', name: 'b', ext: '.c' }), path.format({ root: '/', base: 'x' }), path.format({ dir: '/a', base: 'x', name: 'ignored' }));
