const tag = (s, ...v) => ({ cooked: [...s], raw: [...s.raw], v });
console.log(tag`a${1}b\n${'two'}\u0041c`);
console.log(tag``, tag`${0}`);
const same = () => tag2`x${1}`;
const seen = new Set();
function tag2(s) { seen.add(s); return Object.isFrozen(s) && Object.isFrozen(s.raw); }
console.log(same(), same(), seen.size);
tag2`x${1}`;
console.log(seen.size);
console.log(tag`\unicode and \xerxes ${1}`.cooked, tag`\u{110000}`.raw);
console.log(String.raw`a\n${1 + 1}\\`, String.raw({ raw: 'xyz' }, 0, 1, 2));
const o = { f(s) { return this === o && s[0]; } };
console.log(o.f`method`);
const html = (s, ...v) => s.reduce((a, x, i) => a + String(v[i - 1]).replace(/[<&]/g, (c) => ({ '<': '&lt;', '&': '&amp;' })[c]) + x);
console.log(html`<b>${'<&>'}</b>`);
const chain = (s) => (t) => s[0] + t[0];
console.log(chain`a``b`);
