const crypto = require('crypto');
const key = Buffer.from('000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 'hex');
const iv = Buffer.alloc(16, 7);
for (const bits of [128, 192, 256]) for (const mode of ['cbc', 'ctr']) {
  const cipher = crypto.createCipheriv(`aes-${bits}-${mode}`, key.subarray(0, bits / 8), iv);
  const sealed = cipher.update('the quick brown fox', 'utf8', 'hex') + cipher.final('hex');
  const opener = crypto.createDecipheriv(`aes-${bits}-${mode}`, key.subarray(0, bits / 8), iv);
  console.log(bits, mode, sealed, opener.update(sealed, 'hex', 'utf8') + opener.final('utf8'));
}
for (const bits of [128, 192, 256]) {
  const cipher = crypto.createCipheriv(`aes-${bits}-gcm`, key.subarray(0, bits / 8), iv.subarray(0, 12));
  cipher.setAAD(Buffer.from('more'));
  const sealed = Buffer.concat([cipher.update('secret'), cipher.final()]);
  console.log(bits, sealed.toString('hex'), cipher.getAuthTag().toString('hex'));
  const opener = crypto.createDecipheriv(`aes-${bits}-gcm`, key.subarray(0, bits / 8), iv.subarray(0, 12)).setAAD(Buffer.from('more')).setAuthTag(cipher.getAuthTag());
  console.log(Buffer.concat([opener.update(sealed), opener.final()]).toString());
  const wrong = crypto.createDecipheriv(`aes-${bits}-gcm`, key.subarray(0, bits / 8), iv.subarray(0, 12)).setAuthTag(cipher.getAuthTag());
  wrong.update(sealed);
  try { wrong.final(); } catch (error) { console.log(error.message); }
}
const told = (work) => { try { work(); console.log('fine'); } catch (e) { console.log(e.name, e.code); } };
told(() => crypto.createCipheriv('aes-128-cbc', key, iv));
told(() => crypto.createCipheriv('aes-256-cbc', key, iv.subarray(3)));
told(() => { const c = crypto.createDecipheriv('aes-256-cbc', key, iv); c.update(Buffer.alloc(15)); c.final(); });
told(() => { const c = crypto.createDecipheriv('aes-256-cbc', key, iv); c.update(Buffer.alloc(16)); c.final(); });
