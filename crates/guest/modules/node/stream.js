// The Node project's own streams.
const stream = require('readable-stream/lib/ours/browser.js');
module.exports = stream;
