// How Node checks arguments.
module.exports = require('lib/internal/validators');
