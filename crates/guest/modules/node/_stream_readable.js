module.exports = require('node/stream').Readable;
