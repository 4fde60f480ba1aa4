// The package of Node's own path for POSIX systems, its errors with their codes.
const path = require('path-browserify');

for (const [name, work] of Object.entries(path)) {
  if (typeof work !== 'function') continue;
  path[name] = (...args) => {
    try {
      return work(...args);
    } catch (error) {
      if (error instanceof TypeError) error.code ??= 'ERR_INVALID_ARG_TYPE';
      throw error;
    }
  };
}
path.toNamespacedPath = path._makeLong = (text) => text;
path.posix = path;
module.exports = path;
