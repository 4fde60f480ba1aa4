import { buildSchema, graphql, introspectionFromSchema, parse, print, validate } from 'graphql';
const schema = buildSchema('type Query { hello(name: String = "world"): String!, nums: [Int!]! } "doc" enum E { A B }');
const root = { hello: async ({ name }) => `hello ${name}`, nums: () => [1, 2, 3] };
console.log(JSON.stringify(await graphql({ schema, source: 'query($n: String) { hello(name: $n) again: hello nums }', rootValue: root, variableValues: { n: 'Ada' } })));
console.log(print(parse('query Q($a:Int=1){f(x:$a)@skip(if:true){...on T{y}}}')));
console.log(validate(schema, parse('{ nope }')).map((error) => error.toString()));
console.log(introspectionFromSchema(schema).__schema.types.map((type) => type.name).sort().join());
