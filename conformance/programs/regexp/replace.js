console.log('aaa'.replace('a', 'b'), 'aaa'.replaceAll('a', 'b'), 'abc'.replace(/(b)/, '[$`|$&|$\'|$1|$2|$01|$10|$$]'), 'x'.replace('x', '$&$&$0'));
console.log('John Smith'.replace(/(\w+)\s(\w+)/, '$2, $1'), 'a-b'.replace(/-/, () => '$&'), 'abc'.replaceAll(/[ac]/g, (m, i, s) => `${m}${i}${s.length}`));
try { 'a'.replaceAll(/a/, 'b'); } catch (e) { console.log(e.name); }
console.log('abc'.replaceAll('', '-'), ''.replaceAll('', 'x'), 'aXbX'.replaceAll('X', (m, i) => i), 'a.b.c'.replaceAll('.', '$'));
console.log('camelCaseText'.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`), 'snake_case'.replace(/_(\w)/g, (_, c) => c.toUpperCase()), 'x'.replace(/(y)?x/, '[$1]'));
console.log('one two'.split(/(\s)/), 'abc'.split(''), 'a1b2'.split(/\d/), ''.split(''), ''.split(','), 'abc'.split(/(?:)/u), 'a,b,c'.split(',', 2), 'A<B>bold</B>'.split(/<(\/)?([^<>]+)>/));
console.log('test'.search(/s/), 'x'.search('y'), 'a+b'.match('+'.replace('+', '\\+')).index, 'abc'.match(/z/g), 'abab'.match(/(a)(b)/).slice(), 'abab'.lastIndexOf('ab'));
