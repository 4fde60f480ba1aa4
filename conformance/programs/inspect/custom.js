const custom = Symbol.for('nodejs.util.inspect.custom');
console.log({ [custom]() { return 'shown'; } }, [{ [custom]() { return { other: 1 }; } }], { a: { [custom]: () => 'two\nlines' } });
class Money { constructor(v) { this.v = v; } [custom](depth, options) { return `Money<${this.v} ${depth} ${typeof options}>`; } }
console.log(new Money(5), { m: new Money(6) }, [[new Money(7)]]);
console.log({ [custom]() { return this; }, a: 1 }, { [custom]: 'not a function' }, { [custom]() { return 5; } });
