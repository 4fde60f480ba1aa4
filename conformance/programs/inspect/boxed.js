console.log(new Number(3), new Number(-0), new String('abc'), new Boolean(false), Object(Symbol('s')), Object(5n));
const s = new String('ab'); s.x = 1; console.log(s);
class S extends String {} console.log(new S('q'), [new String("it's")]);
class N extends Number {} console.log(new N(4));
