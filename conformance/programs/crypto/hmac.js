const { createHmac } = require('node:crypto');
for (const name of ['md5', 'sha1', 'sha256', 'sha512']) console.log(createHmac(name, 'key').update('The quick brown fox').update(' jumps').digest('hex'));
console.log(createHmac('sha256', Buffer.alloc(200, 1)).update('').digest('base64'), createHmac('sha256', '').update('x').digest('hex'));
