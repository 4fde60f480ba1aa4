console.log('\x41\u0041\u{41}', '\'"`\\', "\'\"", '\b\f\v\0'.split('').map((c) => c.charCodeAt(0)).join(), '\u2028'.length, '\q', '\u{10FFFF}'.length, 'a\
b');
console.log(escape('é ü+a@*_-./€😀'), unescape('%u20AC%E9%zz%'), JSON.stringify('\u2028\u2029\ud83d'), '😀'.split('').length, '😀'.split('').join('') === '😀', Array.from('👨‍👩‍👧').length, [...'e\u0301'].length, 'naïve café'.match(/\w+/g).join('|'));
console.log('tab\there', 'nul\0end'.length, 'cr\rlf\n'.length, `multi
line`.split('\n').length, 'a\u0000b'.indexOf('\0'), '\ud83d' + '\ude00' === '😀', '😀'.at(0) === '\ud83d', '😀' > '\ud83d', encodeURIComponent('😀'), '\u{1f600}'.codePointAt(0).toString(16));
