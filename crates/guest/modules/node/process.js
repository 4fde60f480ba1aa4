module.exports = require('web/process');
