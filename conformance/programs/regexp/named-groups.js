const re = /(?<year>\d{4})-(?<month>\d\d)(?:-(?<day>\d\d))?/u;
const m = re.exec('on 2024-05 and');
console.log(m.groups.year, m.groups.month, m.groups.day, m.index, m.length, 'day' in m.groups, Object.getPrototypeOf(m.groups));
console.log('2024-05-06'.replace(re, '$<day>/$<month>/$<year>'), '2024-05-06'.replace(re, (...a) => JSON.stringify(a.at(-1))));
console.log([...'a1b2'.matchAll(/(?<l>[a-z])(?<d>\d)/g)].map(({ groups: { l, d } }) => d + l));
console.log(/(?<q>['"]).*?\k<q>/.exec(`say "it's" ok`)[0], /\k<x>(?<x>a)/.test('a'), /(?<a>.)(?<b>.)\2\1/.test('abba'));
const { groups: { year, ...rest } } = re.exec('1999-12-31');
console.log(year, JSON.stringify(rest));
try { new RegExp('(?<a>x)(?<a>y)'); } catch (e) { console.log(e.name); }
try { new RegExp('\\k<none>', 'u'); } catch (e) { console.log(e.name); }
console.log('x'.replace(/(?<n>x)/, '[$<n>$<m>$1$2$$$&]'), 'x'.replace(/x/, '$<n>'));
