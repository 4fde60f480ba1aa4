// Node's own path, for both systems.
module.exports = require('lib/path');
