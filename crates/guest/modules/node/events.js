// Node's own EventEmitter.
module.exports = require('lib/events');
