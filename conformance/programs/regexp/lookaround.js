console.log('price $42 and €17'.match(/(?<=\$)\d+/)[0], 'price $42 and €17'.match(/(?<!\$)\b\d+/)[0], 'a1b2c3'.replace(/(?<=[a-c])\d/g, (d) => d * 2));
console.log('1234567'.replace(/\B(?=(\d{3})+(?!\d))/g, ','), /^(?=.*\d)(?=.*[a-z]).{4,}$/.test('abc1'), /^(?=.*\d)(?=.*[a-z]).{4,}$/.test('abcd'));
console.log('foobar'.match(/foo(?!baz)/)?.index, 'foobaz'.match(/foo(?!baz)/), /(?<=(\d+)(\d+))$/.exec('1053').slice(1), /(?<=\1(a))b/.test('aab'));
console.log('abcdef'.replace(/(?<=b).(?=d)/, '_'), /(?=(a+))a*b\1/.exec('baaabac').slice(), /(?<=^|,)x(?=$|,)/g[Symbol.replace]('x,xx,x', 'y'));
console.log(/(?:(?=(\w))a)?b/.exec('b').slice(), /(?!(a))b/.exec('b').slice());
