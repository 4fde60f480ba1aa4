import superjson from 'superjson';
const shared = { n: 1n };
const text = superjson.stringify({ at: new Date(0), map: new Map([[1, new Set(['a'])]]), r: /x/gi, big: 12345678901234567890n, u: undefined, nan: NaN, a: shared, b: shared, url: new URL('https://x/y'), e: new RangeError('why') });
console.log(text);
const back = superjson.parse(text);
console.log(back.at instanceof Date, back.map.get(1).has('a'), back.r.flags, back.big + 1n, 'u' in back, back.a === back.b, back.url.href, back.e.message);
