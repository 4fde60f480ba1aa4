const crypto = require('crypto');
const told = (...args) => { try { crypto.generateKeyPairSync(...args); console.log('made'); } catch (error) { console.log(error.name, error.code, error.message); } };
const good = { publicKeyEncoding: { type: 'spki', format: 'pem' }, privateKeyEncoding: { type: 'pkcs8', format: 'pem' } };
for (const options of [
  { ...good, publicKeyEncoding: 0 }, { ...good, publicKeyEncoding: { format: 'pem' } }, { ...good, publicKeyEncoding: { type: 'spki', format: 'x' } }, { ...good, privateKeyEncoding: { type: 'spki', format: 'pem' } },
  { ...good, privateKeyEncoding: { type: 'sec1', format: 'pem' } }, { ...good, privateKeyEncoding: { ...good.privateKeyEncoding, cipher: 5 } }, { ...good, privateKeyEncoding: { ...good.privateKeyEncoding, cipher: 'aes128' } },
  { ...good, privateKeyEncoding: { ...good.privateKeyEncoding, cipher: 'none', passphrase: 'x' } }, { ...good, privateKeyEncoding: { type: 'pkcs1', format: 'der', cipher: 'aes128', passphrase: 'x' } }, { modulusLength: 1.5 }, { modulusLength: -1 }, { modulusLength: 512, publicExponent: 'a' },
]) told('rsa', { modulusLength: 512, ...options });
told('ec', { namedCurve: 'P-256', paramEncoding: 'other' });
told('ec', { namedCurve: 'abc' });
told('ec', { namedCurve: 'P-256', publicKeyEncoding: { type: 'pkcs1', format: 'pem' } });
told('rsa-pss', { modulusLength: 512, hashAlgorithm: 'sha2' });
told('rsa-pss', { modulusLength: 512, mgf1HashAlgorithm: 'sha2' });
told('rsa2', {});
told('ed25519', 0);
crypto.generateKeyPair('rsa', { modulusLength: 512, publicExponent: 2 }, (error) => console.log(error.name, /exponent/.test(error.message)));
const pss = crypto.generateKeyPairSync('rsa-pss', { modulusLength: 1024, hashAlgorithm: 'sha256', saltLength: 16 });
console.log(pss.publicKey.asymmetricKeyDetails);
for (const work of [() => crypto.publicEncrypt(pss.publicKey, Buffer.from('x')), () => crypto.sign('sha256', Buffer.from('x'), { key: pss.privateKey, padding: crypto.constants.RSA_PKCS1_PADDING }), () => pss.publicKey.export({ format: 'jwk' }), () => pss.publicKey.export({ type: 'pkcs1', format: 'pem' })]) {
  try { work(); } catch (error) { console.log(error.code, error.message); }
}
console.log(crypto.verify('sha256', Buffer.from('x'), pss.publicKey, crypto.sign('sha256', Buffer.from('x'), pss.privateKey)));
