module.exports = require('node/stream').PassThrough;
