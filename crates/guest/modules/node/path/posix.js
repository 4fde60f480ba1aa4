module.exports = require('node/path').posix;
