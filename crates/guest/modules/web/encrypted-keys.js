// Keys under a passphrase: PKCS #8 by PBES2 with PBKDF2 and AES-CBC, and the older form of PEM, whose headers name the cipher.
const der = require('web/der');
const { pbkdf2, entropy, digest } = natives;
const { aes } = natives.part('ciphers');

const { SEQUENCE, OCTETS, INTEGER, write, oid, integer, oidText, expect } = der;
const PBES2 = '1.2.840.113549.1.5.13';
const PBKDF2 = '1.2.840.113549.1.5.12';
const HASHES = { '1.2.840.113549.2.7': 'SHA-1', '1.2.840.113549.2.9': 'SHA-256', '1.2.840.113549.2.10': 'SHA-384', '1.2.840.113549.2.11': 'SHA-512' };
const CIPHERS = { '2.16.840.1.101.3.4.1.2': 16, '2.16.840.1.101.3.4.1.22': 24, '2.16.840.1.101.3.4.1.42': 32 };
const ROUNDS = 2048;
const ROUNDS_MAX = 1_000_000;
const plain = (bytes) => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
const wrong = () => Object.assign(new Error('error:1C800064:Provider routines::bad decrypt'), { code: 'ERR_OSSL_BAD_DECRYPT' });

const sizeOf = (cipher) => {
  const size = { 'aes-128-cbc': 16, aes128: 16, 'aes-192-cbc': 24, aes192: 24, 'aes-256-cbc': 32, aes256: 32 }[cipher.toLowerCase()];
  if (size === undefined) throw Object.assign(new Error('Unknown cipher'), { code: 'ERR_CRYPTO_UNKNOWN_CIPHER' });
  return size;
};
const seal = (bytes, cipher, passphrase) => {
  const size = sizeOf(cipher);
  const [salt, iv] = [new Uint8Array(entropy(16)), new Uint8Array(entropy(16))];
  const key = pbkdf2('SHA-256', plain(passphrase), plain(salt), ROUNDS, size);
  const name = Object.keys(CIPHERS).find((one) => CIPHERS[one] === size);
  const derivation = write(SEQUENCE, oid(PBKDF2), write(SEQUENCE, write(OCTETS, salt), integer([ROUNDS >> 8, ROUNDS & 255]), write(SEQUENCE, oid('1.2.840.113549.2.9'), write(der.NULL))));
  const scheme = write(SEQUENCE, oid(PBES2), write(SEQUENCE, derivation, write(SEQUENCE, oid(name), write(OCTETS, iv))));
  return write(SEQUENCE, scheme, write(OCTETS, new Uint8Array(aes('cbc', true, key, plain(iv), plain(bytes)))));
};
const open = (bytes, passphrase) => {
  const [scheme, sealed] = expect(der.read(plain(bytes)), SEQUENCE);
  const [name, parameters] = expect(scheme, SEQUENCE);
  if (oidText(name) !== PBES2) throw new der.Malformed('the scheme of the passphrase is not known');
  const [derivation, cipher] = expect(parameters, SEQUENCE);
  const [, values] = expect(derivation, SEQUENCE);
  const [salt, rounds, ...rest] = expect(values, SEQUENCE);
  const hash = rest.find((it) => it.tag === SEQUENCE);
  const count = expect(rounds, INTEGER).reduce((sum, byte) => sum * 256 + byte, 0);
  const [cipherName, iv] = expect(cipher, SEQUENCE);
  const size = CIPHERS[oidText(cipherName)];
  if (size === undefined || count > ROUNDS_MAX) throw new der.Malformed('the scheme of the passphrase is not known');
  const key = pbkdf2(hash === undefined ? 'SHA-1' : HASHES[oidText(hash.content[0])], plain(passphrase), plain(expect(salt, OCTETS)), count, size);
  const opened = aes('cbc', false, key, plain(expect(iv, OCTETS)), plain(expect(sealed, OCTETS)));
  if (opened === undefined || opened === null) throw wrong();
  return opened;
};
// The older form's key: of the passphrase and eight bytes of the iv, by MD5, as the form has it.
const olderKey = (passphrase, iv, size) => {
  const made = new Uint8Array(size);
  let last = new Uint8Array(0);
  for (let at = 0; at < size; at += last.length) {
    const input = new Uint8Array(last.length + passphrase.length + 8);
    input.set(last);
    input.set(passphrase, last.length);
    input.set(iv.subarray(0, 8), last.length + passphrase.length);
    last = new Uint8Array(digest('MD5', plain(input)));
    made.set(last.subarray(0, size - at), at);
  }
  return plain(made);
};
const sealOlder = (bytes, cipher, passphrase) => {
  const size = sizeOf(cipher);
  const iv = new Uint8Array(entropy(16));
  const header = `Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-${size * 8}-CBC,${[...iv].map((it) => it.toString(16).padStart(2, '0')).join('').toUpperCase()}\n\n`;
  return [header, new Uint8Array(aes('cbc', true, olderKey(passphrase, iv, size), plain(iv), plain(bytes)))];
};
const openOlder = (bytes, cipher, iv, passphrase) => {
  const opened = aes('cbc', false, olderKey(passphrase, iv, sizeOf(cipher)), plain(iv), plain(bytes));
  if (opened === undefined || opened === null) throw wrong();
  return new Uint8Array(opened);
};
module.exports = { seal, open, sealOlder, openOlder };
