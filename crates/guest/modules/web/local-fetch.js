// What fetch answers by itself: addresses of blobs, and those that hold their data.
const { resolve } = require('web/object-urls');

const MIME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+\/[!#$%&'*+\-.^_`|~0-9A-Za-z]+[\t ]*(;.*)?$/;
const PLAIN = 'text/plain;charset=US-ASCII';

// The data URL processor of the Fetch standard; nothing for what is none.
const fromData = (url) => {
  const comma = url.indexOf(',');
  if (comma < 0) return undefined;
  let type = url.slice('data:'.length, comma).trim();
  let text = url.slice(comma + 1).replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
  const base64 = /; *base64$/i.exec(type);
  if (base64 !== null) {
    type = type.slice(0, base64.index);
    try {
      text = atob(text);
    } catch {
      return undefined;
    }
  }
  if (type.startsWith(';')) type = `text/plain${type}`;
  return { body: { bytes: Uint8Array.from(text, (unit) => unit.charCodeAt(0)) }, headers: [['content-type', MIME.test(type) ? type : PLAIN]] };
};
const fromBlob = (url, method) => {
  const blob = method === 'GET' ? resolve(url) : undefined;
  return blob && { body: { stream: blob.stream() }, headers: [['content-length', `${blob.size}`], ['content-type', blob.type]] };
};
const local = ({ url, method }) => {
  const bare = url.replace(/#.*$/, '');
  const found = bare.startsWith('data:') ? fromData(bare) : fromBlob(bare, method);
  return found && { ...found, status: 200, statusText: 'OK', url, redirected: false };
};
module.exports = { local };
