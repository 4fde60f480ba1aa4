// Keys under a passphrase: PKCS #8 by PBES2 with PBKDF2, and the older form of PEM, whose headers name the cipher; with AES or triple DES.
const der = require('web/der');
const { pbkdf2, entropy, digest } = natives;
const { aes, des3 } = natives.part('ciphers');

const { SEQUENCE, OCTETS, INTEGER, write, oid, integer, oidText, expect } = der;
const PBES2 = '1.2.840.113549.1.5.13';
const PBKDF2 = '1.2.840.113549.1.5.12';
const HASHES = { '1.2.840.113549.2.7': 'SHA-1', '1.2.840.113549.2.9': 'SHA-256', '1.2.840.113549.2.10': 'SHA-384', '1.2.840.113549.2.11': 'SHA-512' };
const AES_OID = '2.16.840.1.101.3.4.1';
// By Node's names: the identifier, the bytes of a key and of an iv, and what the older form calls it.
const CIPHERS = { 'des-ede3-cbc': { id: '1.2.840.113549.3.7', size: 24, ivSize: 8, older: 'DES-EDE3-CBC' } };
for (const [bits, arc] of [[128, 0], [192, 20], [256, 40]]) {
  CIPHERS[`aes-${bits}-cbc`] = { id: `${AES_OID}.${arc + 2}`, size: bits / 8, ivSize: 16, older: `AES-${bits}-CBC` };
  CIPHERS[`aes-${bits}-ecb`] = { id: `${AES_OID}.${arc + 1}`, size: bits / 8, ivSize: 0 };
}
const ALIASES = { aes128: 'aes-128-cbc', aes192: 'aes-192-cbc', aes256: 'aes-256-cbc', des3: 'des-ede3-cbc' };
const ROUNDS = 2048;
const ROUNDS_MAX = 1_000_000;
const plain = (bytes) => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
const wrong = () => Object.assign(new Error('error:1C800064:Provider routines::bad decrypt'), { code: 'ERR_OSSL_BAD_DECRYPT' });

const cipherOf = (name) => {
  const lower = name.toLowerCase();
  const found = CIPHERS[ALIASES[lower] ?? lower];
  if (found === undefined) throw Object.assign(new Error('Unknown cipher'), { code: 'ERR_CRYPTO_UNKNOWN_CIPHER' });
  return found;
};
// Under a cipher without an iv each block is one of CBC behind zeros.
const BLOCK = 16;
const eachBlock = (sealing, key, bytes) => {
  const whole = sealing ? bytes.byteLength - (bytes.byteLength % BLOCK) : Math.max(0, bytes.byteLength - BLOCK);
  const last = aes('cbc', sealing, key, new ArrayBuffer(BLOCK), bytes.slice(whole));
  return last === undefined || last === null ? undefined : der.joined([new Uint8Array(aes('ecb-bare', sealing, key, new ArrayBuffer(0), bytes.slice(0, whole))), new Uint8Array(last)]).buffer;
};
const coded = ({ ivSize }, sealing, key, iv, bytes) => (ivSize === 0 ? eachBlock(sealing, key, bytes) : ivSize === 8 ? des3(true, sealing, key, iv, bytes) : aes('cbc', sealing, key, iv, bytes));
const seal = (bytes, cipher, passphrase) => {
  const by = cipherOf(cipher);
  const [salt, iv] = [new Uint8Array(entropy(16)), new Uint8Array(entropy(by.ivSize))];
  const key = pbkdf2('SHA-256', plain(passphrase), plain(salt), ROUNDS, by.size);
  const derivation = write(SEQUENCE, oid(PBKDF2), write(SEQUENCE, write(OCTETS, salt), integer([ROUNDS >> 8, ROUNDS & 255]), write(SEQUENCE, oid('1.2.840.113549.2.9'), write(der.NULL))));
  const scheme = write(SEQUENCE, oid(PBES2), write(SEQUENCE, derivation, write(SEQUENCE, oid(by.id), write(OCTETS, iv))));
  return write(SEQUENCE, scheme, write(OCTETS, new Uint8Array(coded(by, true, key, plain(iv), plain(bytes)))));
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
  const id = oidText(cipherName);
  const by = Object.values(CIPHERS).find((one) => one.id === id);
  if (by === undefined || count > ROUNDS_MAX) throw new der.Malformed('the scheme of the passphrase is not known');
  const key = pbkdf2(hash === undefined ? 'SHA-1' : HASHES[oidText(hash.content[0])], plain(passphrase), plain(expect(salt, OCTETS)), count, by.size);
  const opened = coded(by, false, key, plain(expect(iv, OCTETS)), plain(expect(sealed, OCTETS)));
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
const hex = (bytes) => [...bytes].map((it) => it.toString(16).padStart(2, '0')).join('').toUpperCase();
const sealOlder = (bytes, cipher, passphrase) => {
  const by = cipherOf(cipher);
  if (by.older === undefined) throw Object.assign(new Error('Unsupported cipher'), { code: 'ERR_OSSL_PEM_UNSUPPORTED_CIPHER' });
  const iv = new Uint8Array(entropy(by.ivSize));
  const header = `Proc-Type: 4,ENCRYPTED\nDEK-Info: ${by.older},${hex(iv)}\n\n`;
  return [header, new Uint8Array(coded(by, true, olderKey(passphrase, iv, by.size), plain(iv), plain(bytes)))];
};
const openOlder = (bytes, cipher, iv, passphrase) => {
  const by = cipherOf(cipher);
  const opened = iv.length === by.ivSize ? coded(by, false, olderKey(passphrase, iv, by.size), plain(iv), plain(bytes)) : undefined;
  if (opened === undefined || opened === null) throw wrong();
  return new Uint8Array(opened);
};
module.exports = { cipherOf, seal, open, sealOlder, openOlder };
