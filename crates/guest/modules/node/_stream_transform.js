module.exports = require('node/stream').Transform;
