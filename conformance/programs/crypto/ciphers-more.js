const crypto = require('crypto');
const key = (bytes) => Buffer.from(Array.from({ length: bytes }, (_, at) => at * 7 + 1));
const text = 'The quick brown fox jumps over the lazy dog, and comes back.';
for (const [name, keyBytes, ivBytes] of [['aes-128-ecb', 16, 0], ['aes-192-ecb', 24, 0], ['aes-256-ecb', 32, 0], ['des-ede3-cbc', 24, 8], ['DES3', 24, 8]]) {
  const iv = ivBytes === 0 ? null : key(ivBytes);
  for (const parts of [[text], [text.slice(0, 5), text.slice(5, 16), text.slice(16)], ['']]) {
    const cipher = crypto.createCipheriv(name, key(keyBytes), iv);
    const made = Buffer.concat([...parts.map((part) => cipher.update(part)), cipher.final()]);
    const decipher = crypto.createDecipheriv(name, key(keyBytes), iv);
    const opened = decipher.update(made.toString('hex'), 'hex', 'utf8') + decipher.final('utf8');
    console.log(name, made.toString('hex'), opened === parts.join(''));
  }
  const bare = crypto.createCipheriv(name, key(keyBytes), iv).setAutoPadding(false);
  console.log(name, bare.update(text.slice(0, 48), 'utf8', 'hex') + bare.final('hex'));
  const cut = crypto.createDecipheriv(name, key(keyBytes), iv);
  cut.update(Buffer.alloc(7));
  try { cut.final(); } catch (error) { console.log(error.code, error.message); }
  console.log(crypto.getCipherInfo(name));
}
// RFC 3394.
for (const bits of [128, 192, 256]) {
  const wrap = crypto.createCipheriv(`id-aes${bits}-wrap`, key(bits / 8), Buffer.alloc(8, 0xa6));
  const wrapped = Buffer.concat([wrap.update(key(32)), wrap.final()]);
  const unwrap = crypto.createDecipheriv(`aes${bits}-wrap`, key(bits / 8), Buffer.alloc(8, 0xa6));
  console.log(wrapped.toString('hex'), Buffer.concat([unwrap.update(wrapped), unwrap.final()]).equals(key(32)), crypto.getCipherInfo(`aes${bits}-wrap`));
}
for (const args of [['aes-128-ecb', key(16), key(1)], ['des-ede3-cbc', key(16), key(8)], ['des-ede3-cbc', key(24), key(16)], ['aes-128-nothing', key(16), null]]) {
  try { crypto.createCipheriv(...args); } catch (error) { console.log(error.code, error.message); }
}
