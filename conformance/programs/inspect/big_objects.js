console.log(Object.fromEntries(Array.from({ length: 60 }, (_, i) => ['key' + i, i])));
console.log(Array.from({ length: 3 }, () => Object.fromEntries(Array.from({ length: 12 }, (_, i) => ['k' + i, 'value ' + i]))));
