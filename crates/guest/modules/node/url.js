// The package's port of Node's legacy parser; URL and URLSearchParams are the session's own.
import { Url, parse, resolve, resolveObject, format as formatLegacy, pathToFileURL, fileURLToPath, urlToHttpOptions } from 'unenv/node/url';
import { URL, URLSearchParams, domainToASCII, domainToUnicode } from 'web/url';

const format = (value, options) => {
  if (!(value instanceof URL)) return formatLegacy(value, options);
  const { fragment = true, search = true, auth = true, unicode = false } = options ?? {};
  const copy = new URL(value.href);
  if (!fragment) copy.hash = '';
  if (!search) copy.search = '';
  if (!auth) {
    copy.username = '';
    copy.password = '';
  }
  return unicode ? copy.href.replace(copy.hostname, domainToUnicode(copy.hostname)) : copy.href;
};
export { Url, parse, resolve, resolveObject, format, pathToFileURL, fileURLToPath, urlToHttpOptions, URL, URLSearchParams, domainToASCII, domainToUnicode };
