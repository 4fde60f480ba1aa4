// Streams of Node as streams of the web, and back.
module.exports = require('lib/internal/webstreams/adapters');
