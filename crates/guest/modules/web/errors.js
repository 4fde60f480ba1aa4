// Node's errors by their codes.
module.exports = require('lib/internal/errors');
