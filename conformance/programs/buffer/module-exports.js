const buffer = require('node:buffer');
console.log(buffer.Buffer === Buffer, typeof buffer.kMaxLength, typeof buffer.constants.MAX_LENGTH, buffer.isUtf8(Buffer.from('é')), buffer.isUtf8(Buffer.from([0xff])), buffer.isAscii(Buffer.from('a')), buffer.isAscii(Buffer.from('é')), buffer.atob('aGk='), buffer.btoa('hi'), buffer.transcode(Buffer.from('€'), 'utf8', 'utf16le').toString('hex'));
