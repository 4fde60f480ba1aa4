// Node's own zlib, over the engine's streams.
module.exports = require('lib/zlib');
