// An environment holds texts.
process.env.NUMBER = 5;
process.env.NOTHING = undefined;
console.log(typeof process.env.NUMBER, process.env.NUMBER, process.env.NOTHING, 'NUMBER' in process.env);
delete process.env.NUMBER;
console.log(process.env.NUMBER);
for (const work of [() => { process.env.x = Symbol('s'); }, () => Object.defineProperty(process.env, 'x', { value: '1' }), () => process.hrtime(1), () => process.kill('x'), () => process.nextTick(1), () => process.cpuUsage(1), () => process.emitWarning(1)]) {
  try {
    work();
  } catch (error) {
    console.log(error.name, error.code, error.message);
  }
}
