// Streams of the web, as Node has them in a module.
module.exports = { ...require('web/streams'), ...require('web/compression') };
