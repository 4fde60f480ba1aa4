const os = require('os');
console.log(JSON.stringify(os.EOL), os.devNull, os.platform(), os.type(), os.endianness(), os.tmpdir(), typeof os.hostname(), os.constants.signals.SIGTERM, os.constants.errno.ENOENT);
