console.log('aaa'.match(/a+?/)[0], 'aaa'.match(/a{2}/)[0], 'aaaa'.match(/a{2,}?/)[0], 'aaaa'.match(/a{1,3}/)[0], '<<a>>'.match(/<.+?>/)[0], /a{,2}/.test('a{,2}'), /x{0}y/.exec('xy')[0]);
console.log(/(a*)*/.exec('b').slice(), /(z)((a+)?(b+)?(c))*/.exec('zaacbbbcac').slice(), /(?:a|ab)(?:c|bcd)(?:d*)/.exec('abcd')[0], /(a|ab)(c|bcd)(d*)/.exec('abcd').slice());
console.log(/\bfoo\b/.test('a foo b'), /^\w+$/m.exec('!\nword\n')[0], /[^]/.exec('\n')[0] === '\n', /[]/.test('a'), /\0/.test('\0'), /\cJ/.test('\n'), /[\b]/.test('\b'), /\x41\u0042\103/.test('ABC'));
console.log(/(?:)/.source, RegExp('a|b').exec('b').index, /[a\-z]/.test('-'), /[\w-]/.test('-'), /\d{2}:\d{2}/.test('12:34'), /^(?:(\d)|(\w))$/.exec('a').slice());
const d = /(?<a>b)c/d.exec('abc');
console.log(d.indices[0], d.indices[1], d.indices.groups.a, d.hasIndices);
console.log(/a/[Symbol.match]('ba').index, RegExp.prototype.global, typeof RegExp.prototype.flags, RegExp(/x/g) instanceof RegExp, RegExp.length);
