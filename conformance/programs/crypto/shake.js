const crypto = require('crypto');
for (const name of ['shake128', 'SHAKE256']) {
  console.log(name, crypto.createHash(name).update('abc').digest('hex'));
  for (const outputLength of [0, 1, 5, 300]) console.log(crypto.createHash(name, { outputLength }).update('a').update('bc').digest('hex'));
  console.log(crypto.createHash(name, { outputLength: 8 }).update('x').copy({ outputLength: 4 }).digest('hex'));
}
for (const options of [{ outputLength: 28 }, { outputLength: -1 }, { outputLength: 'a' }]) {
  try { console.log(crypto.createHash('sha256', options).digest('hex')); } catch (error) { console.log(error.name, error.code); }
}
console.log(crypto.createHash('sha256', null).update('').digest('hex'), crypto.getHashes().includes('shake128'));
