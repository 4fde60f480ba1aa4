module.exports = require('lib/internal/util/comparisons');
