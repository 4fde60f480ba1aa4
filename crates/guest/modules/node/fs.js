// Node's own, over the session's volume, which begins empty but for the working directory and /tmp.
const fs = require('lib/fs');

module.exports = fs;
// Made with the module, so that it lies in the base image.
void fs.promises;
