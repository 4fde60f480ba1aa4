// Node's own streams.
module.exports = require('lib/stream');
