module.exports = require('lodash/fp');
