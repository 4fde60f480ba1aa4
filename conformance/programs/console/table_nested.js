console.table([{ o: { a: 1 }, p: { a: 1, b: 2, c: 3 }, arr: [1, 2, 3, 4, 5], f() {}, d: new Date(0) }]); console.table([{ s: "it's", t: 'a\nb' }]);
