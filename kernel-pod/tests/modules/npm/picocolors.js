import pc from 'picocolors';
const on = pc.createColors(true);
console.log(JSON.stringify([on.red('a'), on.bold(on.green(`x${on.red('y')}z`)), pc.createColors(false).red('plain'), typeof pc.isColorSupported]));
