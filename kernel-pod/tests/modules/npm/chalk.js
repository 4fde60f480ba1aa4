import chalk, { Chalk } from 'chalk';
const on = new Chalk({ level: 3 });
console.log(JSON.stringify([on.red('a'), on.bold.green(`x${on.red('y')}z`), on.rgb(1, 2, 3)('rgb'), on.bgHex('#abcdef').black('hex'), new Chalk({ level: 0 }).red('plain'), typeof chalk.level]));
