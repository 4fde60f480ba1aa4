const { normalize } = require('node:path');
for (const text of ['', '.', 'a/./b', 'a/../b', '/../a', './a//b/', '../../a', '/a/b/../..', 'a/..']) console.log(JSON.stringify(text), normalize(text));
