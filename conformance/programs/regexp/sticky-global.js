const y = /foo/y;
y.lastIndex = 3;
console.log(y.test('barfoo'), y.lastIndex, y.test('barfoo'), y.lastIndex);
const g = /a/g;
console.log(g.test('aba'), g.lastIndex, g.exec('aba').index, g.lastIndex, g.exec('aba'), g.lastIndex);
const gy = /\d/gy;
console.log('12a3'.match(gy), '12a3'.replace(gy, 'x'), gy.lastIndex, '12a3'.split(/\d/y));
const tokens = []; const lex = /\s*(?:(\d+)|([a-z]+)|(.))/gy;
for (let m; (m = lex.exec('x = 42+y')) !== null;) tokens.push(m[1] ? +m[1] : m[2] ?? m[3]);
console.log(tokens);
const e = /(?:)/g; console.log('abc'.match(e).length, 'a😀'.match(/(?:)/gu).length, '😀'.replace(/(?:)/g, '-').length, 'abc'.replace(/x*/g, '-'));
const frozen = Object.freeze(/a/g);
try { frozen.test('a'); } catch (err) { console.log(err.name); }
console.log(/a/g.flags, new RegExp(/a/gi, 'm').flags, new RegExp('/', 'dgimsuy').flags, String(new RegExp('/')), new RegExp('').source, new RegExp('\n').source, RegExp.prototype.toString.call({ source: 's', flags: 'f' }));
const big = /a/g; big.lastIndex = 10; console.log(big.test('aaa'), big.lastIndex);
const re = /b/; re.lastIndex = 5; console.log(re.exec('abc').index, re.lastIndex);
