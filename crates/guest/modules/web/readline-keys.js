// How readline hears keys.
module.exports = require('lib/internal/readline/emitKeypressEvents');
