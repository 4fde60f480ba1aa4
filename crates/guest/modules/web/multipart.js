// Reads a body of multipart/form-data, as RFC 7578 and the Fetch standard have it.
const { Buffer } = require('node/buffer');
const { File } = require('web/blob');
const { FormData } = require('web/form');

const LINE = '\r\n';
const bad = () => new TypeError('Failed to parse body as FormData.');
const unescaped = (text) => text.replace(/%0D/gi, '\r').replace(/%0A/gi, '\n').replace(/%22/g, '"');

// The form in these bytes, whose type names its boundary.
const readForm = (bytes, type) => {
  const named = /;\s*boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(type);
  if (named === null) throw bad();
  const mark = `--${named[1] ?? named[2]}`;
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = all.latin1Slice(0, all.length);
  const form = new FormData();
  if (!text.startsWith(mark)) throw bad();
  for (let at = mark.length; !text.startsWith('--', at);) {
    const begin = text.indexOf(LINE + LINE, at) + LINE.length * 2;
    const end = text.indexOf(LINE + mark, begin);
    if (!text.startsWith(LINE, at) || begin < at || end < 0) throw bad();
    const headers = all.utf8Slice(at + LINE.length, begin - LINE.length);
    const [, name] = /^content-disposition: *form-data;.*?\bname="([^"]*)"/im.exec(headers) ?? [];
    if (name === undefined) throw bad();
    const [, filename] = /^content-disposition:.*;\s*filename="([^"]*)"/im.exec(headers) ?? [];
    const [, kind = 'text/plain'] = /^content-type: *(.*?)\s*$/im.exec(headers) ?? [];
    form.append(unescaped(name), filename === undefined ? all.utf8Slice(begin, end) : new File([all.subarray(begin, end)], unescaped(filename), { type: kind }));
    at = end + LINE.length + mark.length;
  }
  return form;
};
module.exports = { readForm };
