const strict = require('assert').strict;
console.log(require('assert/strict') === strict);
try { strict.equal(1, '1'); } catch (error) { console.log(error.name); }
strict.match('abc', /b/);
strict.doesNotMatch('abc', /z/);
try { strict.match('abc', /z/); } catch (error) { console.log(error.name, error.code); }
strict.notDeepEqual({ a: 1 }, { a: 2 });
console.log('done');
