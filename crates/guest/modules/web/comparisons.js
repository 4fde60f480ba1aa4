module.exports = require('assert/build/internal/util/comparisons.js');
