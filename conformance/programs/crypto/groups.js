const crypto = require('crypto');
const named = crypto.getDiffieHellman('modp5');
const own = crypto.createDiffieHellman(named.getPrime(), named.getGenerator());
named.generateKeys();
own.generateKeys();
console.log(named.computeSecret(own.getPublicKey()).equals(own.computeSecret(named.getPublicKey())), named.verifyError, own.verifyError);
for (const bits of [512]) {
  const drawn = crypto.createDiffieHellman(bits);
  console.log(bits, drawn.getPrime().length * 8, drawn.getGenerator('hex'), drawn.verifyError);
  const other = crypto.createDiffieHellman(drawn.getPrime());
  console.log(drawn.computeSecret(other.generateKeys() && (drawn.generateKeys(), other.getPublicKey())).equals(other.computeSecret(drawn.getPublicKey())));
}
console.log(crypto.createDiffieHellman('02', 'hex').verifyError !== 0, crypto.createDiffieHellman(Buffer.from('11', 'hex'), '05', 'hex').getGenerator('hex'));
console.log(crypto.createDiffieHellman('abcdef', 0).getGenerator('hex'), crypto.createDiffieHellman('abcdef', 'hex', 0).getPrime('hex'));
for (const value of ['', Buffer.from([0]), Buffer.from([1])]) {
  try { own.computeSecret(value); } catch (error) { console.log(error.name, error.code, error.message); }
}
const pair = () => crypto.generateKeyPairSync('dh', { group: 'modp5' });
const [alice, bob] = [pair(), pair()];
console.log(alice.publicKey.asymmetricKeyType, alice.privateKey.asymmetricKeyDetails, alice.publicKey.equals(crypto.createPublicKey(alice.privateKey)));
console.log(crypto.diffieHellman({ privateKey: alice.privateKey, publicKey: bob.publicKey }).equals(crypto.diffieHellman({ privateKey: bob.privateKey, publicKey: alice.publicKey })));
const again = crypto.createPrivateKey(alice.privateKey.export({ type: 'pkcs8', format: 'pem' }));
console.log(again.equals(alice.privateKey), crypto.createPublicKey(alice.publicKey.export({ type: 'spki', format: 'pem' })).equals(alice.publicKey));
for (const work of [
  () => crypto.diffieHellman({ privateKey: alice.privateKey, publicKey: crypto.generateKeyPairSync('dh', { group: 'modp14' }).publicKey }),
  () => crypto.generateKeyPairSync('dh', {}), () => crypto.generateKeyPairSync('dh', { group: 'modp0' }), () => crypto.generateKeyPairSync('dh', { group: 'modp5', prime: Buffer.alloc(0) }),
  () => crypto.generateKeyPairSync('dh', { primeLength: -1 }), () => crypto.createDiffieHellman(256), () => crypto.createDiffieHellman(named.getPrime(), 1),
  () => crypto.createECDH('prime256v1').setPublicKey('04ff', 'hex'), () => alice.publicKey.export({ format: 'jwk' }),
]) {
  try { work(); } catch (error) { console.log(error.name, error.code, error.message); }
}
