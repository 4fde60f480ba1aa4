for (const init of ['a=1&b=2&a=3', '?x=%20y+z', { a: 1, b: 'two' }, [['a', 'b'], ['c', 'd']], new Map([['m', 'n']]), new URLSearchParams('q=1'), '', undefined, 'a&=b&=', '%zz=%41', 'a=b=c']) console.log(new URLSearchParams(init).toString());
for (const bad of [[['a']], [5]]) try { new URLSearchParams(bad); } catch (error) { console.log(error.name, error.code); }
