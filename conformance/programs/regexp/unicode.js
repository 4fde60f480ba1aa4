console.log(/^.$/.test('😀'), /^.$/u.test('😀'), /\u{1F600}/u.test('😀'), /[😀-😎]/u.test('😃'), '😀😃'.match(/./gu).length);
console.log(/\p{Lu}/u.test('É'), /\p{Script=Greek}+/u.exec('abc αβγ')[0], /\P{L}/u.exec('aé1')[0], /\p{Emoji_Presentation}/u.test('😀'), /^\p{ID_Start}\p{ID_Continue}*$/u.test('naïve_1'));
console.log(/[\p{L}--[a-z]]/v.test('a'), /[\p{L}--[a-z]]/v.test('A'), /[\w&&\d]/v.test('a'), /[[a-z]&&[aeiou]]+/v.exec('xyzaeb')[0], /^\p{RGI_Emoji}$/v.test('👨‍👩‍👧'), /[\q{abc|d}]/v.exec('xabc')[0]);
console.log(/É/i.test('é'), /ſ/i.test('s'), /ſ/iu.test('s'), /\u212a/i.test('k'), /\u212a/iu.test('k'), /[^\W]/iu.test('ſ'), /\b/u.test('é'), /ß/iu.test('ẞ'));
for (const src of ['\\u{110000}', '\\p{Nope}', '{', '\\-', '(?<=a)*', '\\1', '[b-a]', 'a**']) { const r = []; for (const f of ['', 'u', 'v']) try { new RegExp(src, f); r.push('ok'); } catch (e) { r.push(e.name); } console.log(src, r.join()); }
console.log('a\u2028b\nc'.match(/^.$/gm), /a.b/.test('a\u2028b'), /a.b/s.test('a\nb'), '\ud83d\ude00'.search(/\ude00/), '\ud83d\ude00'.search(/\ude00/u));
