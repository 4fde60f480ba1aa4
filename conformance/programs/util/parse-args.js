const { parseArgs } = require('util');
const { values, positionals } = parseArgs({ args: ['-v', '--name=x', 'pos', '--list', 'a', '--list', 'b'], options: { verbose: { type: 'boolean', short: 'v' }, name: { type: 'string' }, list: { type: 'string', multiple: true } }, allowPositionals: true });
console.log(JSON.stringify(values), positionals.join());
try { parseArgs({ args: ['--nope'], options: {} }); } catch (error) { console.log(error.code); }
