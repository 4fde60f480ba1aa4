import { customAlphabet, customRandom, nanoid, urlAlphabet } from 'nanoid';
import { nanoid as insecure } from 'nanoid/non-secure';
let seed = 7;
const random = (bytes) => Uint8Array.from({ length: bytes }, () => { seed = (seed * 1103515245 + 12345) % 2 ** 31; return seed >> 16; });
console.log(customRandom('abcdef', 10, random)(), customRandom(urlAlphabet, 21, random)());
console.log(nanoid().length, nanoid(7).length, /^[01]{12}$/.test(customAlphabet('01', 12)()), insecure(5).length, new Set(Array.from({ length: 500 }, () => nanoid())).size);
