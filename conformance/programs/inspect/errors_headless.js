Error.stackTraceLimit = 0;
console.log(new Error('message'), new TypeError('type'), [new RangeError('in array')], { e: new Error('in object') });
console.log(new Error(''), new Error(), new Error('two\nlines'));
class Mine extends Error {} console.log(new Mine('subclass'), new Mine());
class Coded extends Error { code = 'E_CODE'; constructor(m) { super(m); this.extra = { a: 1 }; } } console.log(new Coded('coded'));
