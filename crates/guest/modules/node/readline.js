// Node's own readline, over streams that a cell has.
module.exports = require('lib/readline');
