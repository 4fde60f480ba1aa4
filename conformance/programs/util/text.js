const util = require('util');
console.log(util.stripVTControlCharacters('\u001b[31mred\u001b[39m'), util.toUSVString('a\ud800b'), util.types === require('node:util/types'));
console.log(new util.TextEncoder().encode('é').join(), new util.TextDecoder().decode(new Uint8Array([0xe2, 0x82, 0xac])));
