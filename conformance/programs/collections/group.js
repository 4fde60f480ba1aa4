const by = (a, f) => a.reduce((o, x) => ((o[f(x)] ??= []).push(x), o), {});
console.log(by(['one', 'two', 'three'], (s) => s.length), by([1, 2, 3], (n) => (n % 2 ? 'odd' : 'even')));
const words = 'the quick the lazy the end'.split(' '); const counts = new Map(); for (const w of words) counts.set(w, (counts.get(w) ?? 0) + 1);
console.log([...counts].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)), Math.max(...counts.values()));
const zip = (...a) => a[0].map((_, i) => a.map((r) => r[i])); console.log(zip([1, 2], ['a', 'b']), Object.fromEntries(zip(['k', 'l'], [1, 2])));
const chunk = (a, n) => Array.from({ length: Math.ceil(a.length / n) }, (_, i) => a.slice(i * n, i * n + n)); console.log(chunk([1, 2, 3, 4, 5], 2));
const uniq = [...new Map([{ id: 1, v: 'a' }, { id: 2, v: 'b' }, { id: 1, v: 'c' }].map((x) => [x.id, x])).values()]; console.log(uniq);
const transpose = (m) => m[0].map((_, i) => m.map((r) => r[i])); console.log(transpose([[1, 2, 3], [4, 5, 6]]), [...Array(3).keys()], Array.from({ length: 3 }, (_, i) => 2 ** i));
const lru = new Map(); const use = (k) => { lru.delete(k); lru.set(k, 1); if (lru.size > 2) lru.delete(lru.keys().next().value); }; 'abacbd'.split('').forEach(use); console.log([...lru.keys()]);
