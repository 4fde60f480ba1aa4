const path = require('path');
console.log(path.isAbsolute('/a'), path.isAbsolute('a'), path.isAbsolute(''), path.sep, path.delimiter, path.posix.join('a', 'b'), path.toNamespacedPath('/x'));
try { path.join(5); } catch (error) { console.log(error.name, error.code); }
