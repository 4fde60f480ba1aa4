// Addresses of blobs, until they are revoked: each keeps its blob.
const { codes } = require('web/errors');

const blobs = new Map();
const PREFIX = 'blob:nodedata:';
const create = (blob) => {
  if (!(blob instanceof Blob)) throw new codes.ERR_INVALID_ARG_TYPE('obj', 'Blob', blob);
  const id = natives.webcrypto.randomUUID();
  blobs.set(`${PREFIX}${id}`, blob);
  return `${PREFIX}${id}`;
};
module.exports = { create, revoke: (url) => { blobs.delete(url); }, resolve: (url) => blobs.get(`${url}`) };
