// Node's own MIMEType.
module.exports = require('lib/internal/mime');
