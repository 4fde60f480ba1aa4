// Begins empty but for the working directory and /tmp.
module.exports = require('web/volume').fs;
