module.exports = require('node/stream').Writable;
