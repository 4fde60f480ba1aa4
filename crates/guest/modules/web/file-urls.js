// Paths and `file:` URLs, and what Node's own files ask of URLs.
const { URL } = require('web/url');
const { codes: { ERR_INVALID_ARG_TYPE, ERR_INVALID_FILE_URL_HOST, ERR_INVALID_FILE_URL_PATH, ERR_INVALID_URL_SCHEME } } = require('web/errors');
const { validateString } = require('web/validators');

const isURL = (value) => Boolean(value?.href && value.protocol && value.auth === undefined && value.path === undefined);
const fileURLToPath = (given) => {
  const url = typeof given === 'string' ? new URL(given) : given;
  if (!isURL(url)) throw new ERR_INVALID_ARG_TYPE('path', ['string', 'URL'], given);
  if (url.protocol !== 'file:') throw new ERR_INVALID_URL_SCHEME('file');
  if (url.hostname !== '') throw new ERR_INVALID_FILE_URL_HOST('linux');
  if (/%2f/i.test(url.pathname)) throw new ERR_INVALID_FILE_URL_PATH('must not include encoded / characters');
  return decodeURIComponent(url.pathname);
};
const escapes = { '%': '%25', '\\': '%5C', '\n': '%0A', '\r': '%0D', '\t': '%09', '?': '%3F', '#': '%23' };
const pathToFileURL = (path) => {
  validateString(path, 'path');
  let resolved = require('node/path').resolve(path);
  if (path.endsWith('/') && !resolved.endsWith('/')) resolved += '/';
  const url = new URL('file:///');
  url.pathname = resolved.replace(/[%\\\n\r\t?#]/g, (it) => escapes[it]);
  return url;
};
const urlToHttpOptions = (url) => {
  const { hostname, pathname, port, username, password, search } = url;
  return {
    __proto__: null, ...url, protocol: url.protocol, hostname: hostname?.startsWith('[') ? hostname.slice(1, -1) : hostname, hash: url.hash, search, pathname,
    path: `${pathname || ''}${search || ''}`, href: url.href, ...(port !== '' ? { port: Number(port) } : undefined),
    ...(username || password ? { auth: `${decodeURIComponent(username)}:${decodeURIComponent(password)}` } : undefined),
  };
};
const toPathIfFileURL = (value) => (isURL(value) ? fileURLToPath(value) : value);
module.exports = { fileURLToPath, pathToFileURL, urlToHttpOptions };
Object.defineProperties(module.exports, Object.fromEntries(Object.entries({ isURL, toPathIfFileURL }).map(([name, value]) => [name, { value, enumerable: false }])));
