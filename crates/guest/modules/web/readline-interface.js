// What both forms of Node's readline share.
module.exports = require('lib/internal/readline/interface');
