module.exports = require('web/streams');
