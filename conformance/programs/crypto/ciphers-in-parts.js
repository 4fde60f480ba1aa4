// A cipher gives what it can with each part.
const { createCipheriv, createDecipheriv, createHash } = require('crypto');

const key = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex');
const text = 'forty-five bytes that are no whole block: 45.';
for (const [name, iv] of [['aes-128-cbc', key], ['aes-128-ctr', key], ['aes-128-gcm', key.subarray(0, 12)], ['aes128', key]]) {
  const cipher = createCipheriv(name, key, iv);
  const parts = [text.slice(0, 5), text.slice(5, 20), text.slice(20)].map((part) => cipher.update(part, 'utf8', 'hex'));
  const last = cipher.final('hex');
  const sealed = parts.join('') + last;
  console.log(name, parts, last);
  const decipher = createDecipheriv(name, key, iv);
  if (name.endsWith('gcm')) decipher.setAuthTag(cipher.getAuthTag());
  const opened = [decipher.update(sealed.slice(0, 32), 'hex', 'utf8'), decipher.update(sealed.slice(32), 'hex', 'utf8'), decipher.final('utf8')];
  console.log(opened);
}
const tell = (work) => {
  try {
    console.log(work());
  } catch (error) {
    console.log(error.code, error.reason, error.message);
  }
};
tell(() => createDecipheriv('aes-128-cbc', key, key).update('00', 'hex', 'utf8'));
tell(() => { const one = createDecipheriv('aes-128-cbc', key, key); one.update('0011', 'hex'); return one.final(); });
tell(() => { const one = createCipheriv('aes-128-cbc', key, key); one.setAutoPadding(false); one.update('short'); return one.final(); });
tell(() => createCipheriv('aes-128-cbc', key, 'short'));
const hash = createHash('sha256');
hash.on('data', (sum) => console.log(sum.toString('hex') === hash.digest('hex')));
hash.end('streamed');
