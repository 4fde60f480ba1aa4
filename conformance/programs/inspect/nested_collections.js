console.log(new Map([['list', [1, 2, 3]], ['set', new Set(['a', 'b'])], ['map', new Map([['x', { y: 1 }]])]]));
console.log([new Set([1]), new Map([[1, [2]]]), { s: new Set([{ a: 1 }]) }]);
console.log({ a: new Map([[{ long: 'k'.repeat(30) }, { long: 'v'.repeat(30) }]]) });
