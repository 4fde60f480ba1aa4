// What Node's own files share.
module.exports = require('lib/internal/util');
