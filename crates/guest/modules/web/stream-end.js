// When a stream of Node's has ended.
module.exports = require('lib/internal/streams/end-of-stream');
