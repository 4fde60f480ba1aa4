import { parse, tokenizer, version } from 'acorn';
const tree = parse('async (a, b = 1) => { for await (const x of a) yield_(x ?? b); }', { ecmaVersion: 2024 });
console.log(JSON.stringify(tree));
console.log([...tokenizer('let x = /a/g.test(`${y}`)', { ecmaVersion: 2024 })].map((token) => token.type.label).join(' '));
try { parse('let let = 1', { ecmaVersion: 2024 }); } catch (error) { console.log(error.name, error.message, error.pos); }
console.log(version);
