console.log({ first: 'a'.repeat(30), second: 'b'.repeat(30), third: 'c'.repeat(30) });
console.log({ a: 1, b: { c: 2, d: { e: 3 } }, f: [1, 2, [3, [4, [5]]]] });
console.log({ one: 1, two: 2, three: 3, four: 4, five: 5, six: 6, seven: 7, eight: 8, nine: 9, ten: 10, eleven: 11 });
console.log({ name: 'John Doe', address: { street: '123 Main Street', city: 'Springfield', geo: { lat: 12.5, lon: -3.25, extra: { x: 1 } } }, tags: ['a', 'b'] });
