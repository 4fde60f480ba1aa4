// Node's own channels.
module.exports = require('lib/diagnostics_channel');
