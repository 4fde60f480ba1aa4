const util = require('util');
console.log(util.format('%s is %d years and %i, %f', 'Ann', 42.5, 42.9, '1.5'));
console.log(util.format('%j %%', { a: [1] }), util.format('a', 'b', 3), util.format('%s', 'x', 'extra'), util.format('no args %s'));
console.log(util.format('%s %s', null, undefined), util.format('%d', '0x10'), util.format('%i', 'abc'), util.format(1, 2, '3'));
