module.exports = require('npm/zod');
