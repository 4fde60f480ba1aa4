module.exports = require('dayjs');
