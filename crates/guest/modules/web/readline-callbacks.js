// How readline moves a cursor.
module.exports = require('lib/internal/readline/callbacks');
