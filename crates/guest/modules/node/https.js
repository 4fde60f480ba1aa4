module.exports = require('web/http-client').clientOf('https:');
