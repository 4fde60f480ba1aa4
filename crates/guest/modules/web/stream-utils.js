// What Node's own streams share.
module.exports = require('lib/internal/streams/utils');
