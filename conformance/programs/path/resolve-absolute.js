const path = require('path');
for (const parts of [['/a', 'b'], ['/a', '/b', 'c'], ['/a/b', '../c'], ['/a', '.', ''], ['/', '..']]) console.log(path.resolve(...parts));
