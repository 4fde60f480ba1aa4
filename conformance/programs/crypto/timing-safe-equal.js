const { timingSafeEqual } = require('crypto');
console.log(timingSafeEqual(Buffer.from('abc'), Buffer.from('abc')), timingSafeEqual(Buffer.from('abc'), Buffer.from('abd')), timingSafeEqual(new Uint8Array(2), new Uint8Array(2)));
try { timingSafeEqual(Buffer.from('a'), Buffer.from('ab')); } catch (error) { console.log(error.name, error.code); }
