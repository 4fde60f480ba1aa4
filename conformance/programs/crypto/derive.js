const { pbkdf2Sync, hkdfSync, pbkdf2 } = require('crypto');
console.log(pbkdf2Sync('password', 'salt', 1, 20, 'sha1').toString('hex'), pbkdf2Sync('password', 'salt', 1000, 32, 'sha256').toString('hex'), pbkdf2Sync('p', Buffer.from('s'), 2, 70, 'sha512').toString('hex'));
console.log(Buffer.from(hkdfSync('sha256', 'key', 'salt', 'info', 42)).toString('hex'), Buffer.from(hkdfSync('sha512', 'key', '', '', 16)).toString('hex'));
await new Promise((resolve) => pbkdf2('a', 'b', 3, 8, 'sha256', (error, key) => { console.log(error, key.toString('hex')); resolve(); }));
