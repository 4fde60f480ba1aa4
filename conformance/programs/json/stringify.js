console.log(JSON.stringify({ u: undefined, f() {}, s: Symbol(), n: null, nan: NaN, inf: -Infinity, neg0: -0, d: new Date(0), re: /x/, m: new Map([[1, 2]]), a: [undefined, () => 1, Symbol()], b: Object(true), str: Object('s'), num: Object(1) }));
console.log(JSON.stringify(undefined), JSON.stringify(() => 1), JSON.stringify(null), JSON.stringify('"\\\b\f\n\r\t\u0001\u007f\u2028é😀\ud800'), JSON.stringify({ '\n"': 1, '': 2 }));
console.log(JSON.stringify({ a: [1, { b: 2 }], c: {}, d: [] }, null, 2));
console.log(JSON.stringify([[], {}, [[]]], null, '--'), JSON.stringify({ a: 1 }, null, 20).length, JSON.stringify({ a: 1 }, null, 'abcdefghijklmnop').length, JSON.stringify([1], null, 0), JSON.stringify([1], null, '\t'));
console.log(JSON.stringify({ a: 1, b: 2, c: { a: 3, b: 4 } }, ['c', 'a']), JSON.stringify({ a: 1, b: [1, 2] }, (k, v) => (Array.isArray(v) ? v.length : k === 'a' ? undefined : v)), JSON.stringify({ 1: 'x', b: 1 }, [1, new String('b'), 1]));
console.log(JSON.stringify({ toJSON(k) { return `key ${k}`; } }), JSON.stringify({ x: { toJSON(k) { return `key ${k}`; } } }), JSON.stringify({ a: [{ toJSON: () => undefined }] }), JSON.stringify({ d: { toJSON: 5 } }));
const c = {}; c.self = c;
for (const f of [() => JSON.stringify(c), () => JSON.stringify(1n), () => JSON.stringify({ get x() { throw new RangeError(); } })]) try { f(); } catch (e) { console.log(e.name); }
console.log(JSON.stringify({ a: 1n }, (k, v) => (typeof v === 'bigint' ? `${v}n` : v)), JSON.stringify([1e21, 1e-7, 123456789012345680000, 0.1 + 0.2, 5e-324, 1.7976931348623157e308]));
console.log(JSON.stringify(function () { return arguments; }(1, 'a')), JSON.stringify(new (class { x = 1; get y() { return 2; } })()), JSON.stringify(Object.create({ inherited: 1 }, { own: { value: 1, enumerable: true }, hidden: { value: 2 } })), JSON.stringify(new Uint8Array(3)), JSON.stringify([, 1]), JSON.stringify(Object.assign([1], { extra: 2 })));
