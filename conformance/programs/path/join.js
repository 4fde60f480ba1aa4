const path = require('path');
for (const parts of [['a', 'b'], ['/a', '..', 'b'], ['a', '../..', 'b'], ['', ''], ['a//b', './c'], ['/', 'a/'], ['..', '..']]) console.log(JSON.stringify(parts), path.join(...parts));
