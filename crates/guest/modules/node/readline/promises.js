module.exports = require('lib/readline/promises');
