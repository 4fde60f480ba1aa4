// Keys under a passphrase, in each form and cipher, open again, and the older form says which cipher it is.
const crypto = require('crypto');
const pem = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIMFSujN0jIUIdzSvuxka0lfgVVkMdRTuaVvIYUHrvzXQ
-----END PRIVATE KEY-----
`;
const key = crypto.createPrivateKey(pem);
for (const cipher of ['aes-128-cbc', 'aes-192-cbc', 'aes256', 'aes-128-ecb', 'aes-256-ecb', 'des-ede3-cbc', 'des3']) {
  const sealed = key.export({ type: 'pkcs8', format: 'pem', cipher, passphrase: 'secret' });
  console.log(cipher, sealed.split('\n')[0], crypto.createPrivateKey({ key: sealed, passphrase: Buffer.from('secret') }).equals(key));
  const der = key.export({ type: 'pkcs8', format: 'der', cipher, passphrase: 'secret' });
  console.log(crypto.createPrivateKey({ key: der, format: 'der', type: 'pkcs8', passphrase: 'secret' }).equals(key));
}
const ec = crypto.createPrivateKey({ key: { kty: 'EC', crv: 'P-256', d: 'DxBsPQPIgMuMyQbxzbb9toew6Ev6e9O6ZhpxLNgmAEo', x: 'X0mMYR_uleZSIPjNztIkAS3_ud5LhNpbiIFp6fNf2Gs', y: 'UbJuPy2Xi0lW7UYTBxPK3yGgDu9EAKYIecjkHX5s2lI' }, format: 'jwk' });
for (const cipher of ['aes-128-cbc', 'des-ede3-cbc']) {
  const sealed = ec.export({ type: 'sec1', format: 'pem', cipher, passphrase: 'secret' });
  console.log(sealed.split('\n').slice(0, 2), /^DEK-Info: ([A-Z0-9-]+),([0-9A-F]+)$/m.exec(sealed).slice(1).map((it, at) => (at === 0 ? it : it.length)), crypto.createPrivateKey({ key: sealed, passphrase: 'secret' }).equals(ec));
}
// Of another program: sealed by OpenSSL.
const other = `-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: DES-EDE3-CBC,AE21FF6BED8CC13F

HOLKt+mdeN3nVyIQsMH6OP/oHqwqfhQjJEoVHEN5GGvuXJSoXOI6pqR87cB6B3Kb
xN1w+6JtVn+EOjZOmJ0+nE7y7dC98y8TWhfat23hkUq08x7blkVNvr14iP8H6BTH
Z+b+7EzVd9MmknTxU/rM8eapZfOM9FF7qsn+06hvriQ=
-----END EC PRIVATE KEY-----
`;
console.log(crypto.createPrivateKey({ key: other, passphrase: 'secret' }).export({ format: 'jwk' }).x);
for (const options of [{ type: 'pkcs8', format: 'pem', passphrase: 'x' }, { type: 'pkcs8', format: 'pem', cipher: 'foo', passphrase: 'x' }, { type: 'pkcs8', format: 'pem', cipher: 'aes128' }, { format: 'jwk', passphrase: 'x' }, { format: 'pem', type: 'pkcs1' }, { format: 'x' }, { format: 'der', type: 'spki' }]) {
  try { key.export(options); } catch (error) { console.log(error.code, error.message); }
}
