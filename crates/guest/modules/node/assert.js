// Node's own assert.
module.exports = require('lib/assert');
