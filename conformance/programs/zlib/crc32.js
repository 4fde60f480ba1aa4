import zlib from 'node:zlib';
console.log(zlib.crc32('hello'), zlib.crc32(''), zlib.crc32(Buffer.from([1, 2, 3])), zlib.crc32(new Uint16Array([1, 2])));
console.log(zlib.crc32('world', zlib.crc32('hello ')) === zlib.crc32('hello world'), zlib.crc32('x', 2 ** 32 - 1));
for (const work of [() => zlib.crc32(5), () => zlib.crc32('x', -1)]) try { work(); } catch (error) { console.log(error.code, error.message); }
