const original = { date: new Date(5), map: new Map([[{ a: 1 }, new Set([1])]]), bytes: new Uint8Array([1, 2]), nested: { list: [1, , 3] }, big: 5n, re: /x/gi };
original.self = original;
const copy = structuredClone(original);
console.log(copy !== original, copy.self === copy, copy.date.getTime(), [...copy.map.keys()][0].a, copy.bytes.join(), 1 in copy.nested.list, copy.big, String(copy.re));
for (const bad of [() => {}, Symbol('x')]) try { structuredClone(bad); } catch (error) { console.log(error.name); }
