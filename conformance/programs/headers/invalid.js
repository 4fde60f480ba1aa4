for (const work of [() => new Headers([['a']]), () => new Headers({ 'a b': '1' }), () => new Headers({ a: 'x\ny' }), () => new Headers().append('', 'x'), () => new Headers({ a: 'é€' })]) try { work(); console.log('fine'); } catch (error) { console.log(error.name); }
console.log(new Headers(new Headers({ a: 'b' })).get('a'), new Headers(undefined).get('a'), new Headers({ n: 5 }).get('n'));
