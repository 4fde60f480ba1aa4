// Node's own `os`, of a session: nothing of the machine's own.
module.exports = require('lib/os');
