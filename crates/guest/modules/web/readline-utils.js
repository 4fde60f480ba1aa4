// How readline reads keys and measures texts.
module.exports = require('lib/internal/readline/utils');
