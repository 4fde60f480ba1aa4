// Node's own legacy parser; URL and URLSearchParams are the session's own.
const legacy = require('lib/url');
const { URL, URLSearchParams, domainToASCII, domainToUnicode } = require('web/url');
const files = require('web/file-urls');

const format = (value, options) => {
  if (!(value instanceof URL)) return legacy.format(value, options);
  if (options !== undefined) require('web/validators').validateObject(options, 'options');
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
const checked = (name, work) => (domain) => {
  if (domain === undefined) throw new (require('web/errors').codes.ERR_MISSING_ARGS)('domain');
  return work(`${domain}`);
};
module.exports = { Url: legacy.Url, parse: legacy.parse, resolve: legacy.resolve, resolveObject: legacy.resolveObject, format, URL, URLSearchParams, domainToASCII: checked('domainToASCII', domainToASCII), domainToUnicode: checked('domainToUnicode', domainToUnicode), ...files };
