const crypto = require('crypto');
for (const name of ['sha3-224', 'sha3-256', 'sha3-384', 'sha3-512', 'sha512-256', 'sha512-224', 'ripemd160', 'RSA-SHA256', 'SHA1']) console.log(name, crypto.createHash(name).update('a').update('b').digest('hex'));
console.log(crypto.createHmac('sha3-256', 'key').update('text').digest('base64'));
console.log(crypto.scryptSync('password', 'salt', 32).toString('hex'));
console.log(crypto.scryptSync('password', 'salt', 16, { N: 1024, r: 4, p: 2 }).toString('hex'));
crypto.scrypt('password', 'salt', 8, { cost: 2 }, (error, made) => console.log(error, made.toString('hex')));
for (const options of [{ N: 3 }, { N: 1 << 20, r: 8 }]) { try { crypto.scryptSync('p', 's', 8, options); } catch (e) { console.log(e.name, e.code); } }
