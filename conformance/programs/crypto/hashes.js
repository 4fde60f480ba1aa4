const { createHash } = require('crypto');
for (const name of ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512', 'SHA256']) console.log(name, createHash(name).update('hello ').update(Buffer.from('world')).digest('hex'));
console.log(createHash('sha256').digest('base64'), createHash('sha1').update('é', 'latin1').digest('base64url'), createHash('md5').update('6869', 'hex').digest('hex'));
