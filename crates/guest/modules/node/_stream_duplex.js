module.exports = require('node/stream').Duplex;
