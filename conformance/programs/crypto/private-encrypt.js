const crypto = require('crypto');
const { privateKey, publicKey } = crypto.generateKeyPairSync('rsa', { modulusLength: 1024 });
const text = Buffer.from('signed as it is');
const made = crypto.privateEncrypt(privateKey, text);
console.log(made.length, crypto.publicDecrypt(publicKey, made).toString(), crypto.publicDecrypt(privateKey, made).toString());
console.log(crypto.privateEncrypt(privateKey, text).equals(made));
const raw = crypto.publicDecrypt({ key: publicKey, padding: crypto.constants.RSA_NO_PADDING }, made);
console.log(raw.subarray(0, 3).toString('hex'), raw.subarray(-text.length - 1).toString('hex'));
console.log(crypto.publicDecrypt(publicKey, crypto.privateEncrypt({ key: privateKey, padding: crypto.constants.RSA_NO_PADDING }, raw)).toString());
for (const work of [() => crypto.privateEncrypt(privateKey, Buffer.alloc(128)), () => crypto.privateEncrypt({ key: privateKey, padding: crypto.constants.RSA_PKCS1_OAEP_PADDING }, text), () => crypto.privateEncrypt(publicKey, text), () => crypto.publicDecrypt(publicKey, 5)]) {
  try { work(); } catch (error) { console.log(error.name, error.code); }
}
