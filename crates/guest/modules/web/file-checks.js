// How Node's fs checks what it is given, before memfs sees it.
const { codes } = require('web/errors');

const ONE = ['path'];
const PATHS = {
  access: ONE, appendFile: ONE, chmod: ONE, chown: ONE, copyFile: ['src', 'dest'], cp: ['src', 'dest'], lchown: ONE, link: ['existingPath', 'newPath'], lstat: ONE, lutimes: ONE, mkdir: ONE, mkdtemp: ['prefix'],
  open: ONE, opendir: ONE, readFile: ONE, readdir: ONE, readlink: ONE, realpath: ONE, rename: ['oldPath', 'newPath'], rm: ONE, rmdir: ONE, stat: ONE, symlink: ['target', 'path'], truncate: ONE, unlink: ONE,
  unwatchFile: ['filename'], utimes: ONE, watch: ['filename'], watchFile: ['filename'], writeFile: ONE,
};
const WITH_DESCRIPTOR = ['appendFile', 'readFile', 'writeFile', 'truncate'];
const OWNED = ['chown', 'lchown'];
const ID_MAX = 2 ** 32 - 1;
const pathOf = (value, name) => {
  const path = value instanceof URL ? require('node/url').fileURLToPath(value) : value;
  if (typeof path !== 'string' && !(path instanceof Uint8Array)) throw new codes.ERR_INVALID_ARG_TYPE(name, ['string', 'Buffer', 'URL'], value);
  if (typeof path === 'string' ? path.includes('\0') : path.includes(0)) throw new codes.ERR_INVALID_ARG_VALUE(name, path, 'must be a string or Uint8Array without null bytes');
};
const check = (name, args) => {
  const { validateInteger } = require('web/validators');
  PATHS[name].forEach((what, at) => {
    // A descriptor, or FileHandle, is as good.
    if (WITH_DESCRIPTOR.includes(name) && (typeof args[at] === 'number' || typeof args[at]?.fd === 'number')) return;
    pathOf(args[at], what);
  });
  if (OWNED.includes(name)) for (const [at, what] of [[1, 'uid'], [2, 'gid']]) validateInteger(args[at], what, -1, ID_MAX);
};
const toUnixTimestamp = (time, name = 'time') => {
  if (typeof time === 'string' && +time == time) return +time;
  if (Number.isFinite(time)) return time < 0 ? Date.now() / 1000 : time;
  if (time instanceof Date) return time.getTime() / 1000;
  throw new codes.ERR_INVALID_ARG_TYPE(name, ['Date', 'Time in seconds'], time);
};
// Puts the checks before the functions of `fs`.
module.exports = (fs) => {
  for (const name of Object.keys(PATHS)) {
    for (const spelled of [name, `${name}Sync`]) {
      const own = fs[spelled];
      if (typeof own !== 'function') continue;
      fs[spelled] = Object.assign({ [spelled](...args) { check(name, args); return own.apply(this, args); } }[spelled], own);
    }
  }
  // What is no path is not there.
  const { exists, existsSync } = fs;
  fs.exists = (path, callback) => {
    require('web/validators').validateFunction(callback, 'cb');
    try {
      pathOf(path, 'path');
    } catch {
      return callback(false);
    }
    return exists(path, callback);
  };
  fs.existsSync = (path) => {
    try {
      pathOf(path, 'path');
    } catch {
      return false;
    }
    return existsSync(path);
  };
  Object.defineProperty(fs, '_toUnixTimestamp', { value: toUnixTimestamp, configurable: true, writable: true });
};
