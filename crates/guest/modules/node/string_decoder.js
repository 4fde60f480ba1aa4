// Node's own decoder of texts in parts.
module.exports = require('lib/string_decoder');
