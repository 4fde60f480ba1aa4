// A file system in the session's heap. It begins empty but for the working directory and /tmp.
const { Volume, createFsFromVolume } = require('memfs');

const volume = Volume.fromNestedJSON({ '/tmp': {} }, '/', { process: require('web/process') });
module.exports = createFsFromVolume(volume);
