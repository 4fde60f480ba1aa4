// What Node's own files ask of URLs.
const { URL, URLSearchParams, domainToASCII, domainToUnicode } = require('web/url');
const files = require('web/file-urls');
module.exports = { URL, URLSearchParams, domainToASCII, domainToUnicode, fileURLToPath: files.fileURLToPath, pathToFileURL: files.pathToFileURL, urlToHttpOptions: files.urlToHttpOptions, isURL: files.isURL, toPathIfFileURL: files.toPathIfFileURL };
Object.assign(module.exports, {
  unsafeProtocol: new Set(['javascript', 'javascript:']),
  hostlessProtocol: new Set(['javascript', 'javascript:']),
  slashedProtocol: new Set(['http', 'http:', 'https', 'https:', 'ftp', 'ftp:', 'gopher', 'gopher:', 'file', 'file:', 'ws', 'ws:', 'wss', 'wss:']),
});
