const b = Buffer.from('this is a buffer, this is');
console.log(b.indexOf('is'), b.indexOf('is', 3), b.indexOf('is', -4), b.lastIndexOf('is'), b.lastIndexOf('this', 5), b.indexOf(Buffer.from('buf')), b.indexOf(97), b.includes('nope'), b.indexOf(''), b.indexOf('6973', 0, 'hex'));
