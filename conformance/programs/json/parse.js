console.log(JSON.parse(' {"a":[1,2.5e3,-0,true,null,"\\u0041\\n\\ud83d\\ude00"]} '), Object.is(JSON.parse('-0'), -0), JSON.parse('"x"'), JSON.parse('1E2'), JSON.parse('{"a":1,"a":2}').a, JSON.parse('{"__proto__":{"x":1}}').x, Object.keys(JSON.parse('{"__proto__":1}')));
for (const s of ['', '{', '[1,]', '{"a":1,}', "{'a':1}", '01', '1.', '.5', '+1', 'NaN', 'undefined', '"\n"', '"\\x41"', '"\\u12"', '[1 2]', '{"a" 1}', 'tru', '1 2', '\u00a01', '"\t"', '// c\n1', '{a:1}', '"\u2028"', '\ufeff1']) { try { console.log(JSON.stringify(s), JSON.stringify(JSON.parse(s))); } catch (e) { console.log(JSON.stringify(s), e.name); } }
console.log(JSON.parse('{"a":1,"b":{"c":[1,2,3]}}', function (k, v) { return typeof v === 'number' ? v * 10 : v; }));
const order = [];
JSON.parse('{"x":{"y":1},"z":[2,3]}', (k, v) => { order.push(k); return v; });
console.log(order, JSON.parse('[1,2,3]', (k, v) => (k === '1' ? undefined : v)), JSON.parse('{"a":1,"b":2}', function (k, v) { if (k === 'a') this.b = 'changed'; return v; }), JSON.parse('1', () => 'root'));
console.log(JSON.parse('123456789012345678901234567890'), JSON.parse('1e400'), JSON.parse('1e-400'), JSON.parse('0.1') + JSON.parse('0.2'), JSON.parse('[[[[1]]]]')[0][0][0][0], JSON[Symbol.toStringTag]);
const big = JSON.parse(JSON.stringify(Array.from({ length: 2000 }, (_, i) => ({ i, s: `é${i}` }))));
console.log(big.length, big[1999], JSON.parse('['.repeat(500) + ']'.repeat(500)).length);
