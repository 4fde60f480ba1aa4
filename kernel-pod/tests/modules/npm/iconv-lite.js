const iconv = require('iconv-lite');
console.log(iconv.encode('Größe €', 'windows-1252').toString('hex'), iconv.decode(Buffer.from('93fa967b8cea', 'hex'), 'shift_jis'));
console.log(iconv.encode('日本語', 'euc-jp').toString('hex'), iconv.encode('漢', 'gb18030').toString('hex'), iconv.encode('한', 'euc-kr').toString('hex'));
console.log(iconv.decode(Buffer.from('fffe41004200', 'hex'), 'utf-16'), iconv.encode('🦀', 'utf-7').toString(), iconv.encodingExists('nothing'));
