// What libraries ask a process for. No module of that name is there for cells.
const process = {
  env: {},
  argv: [],
  platform: 'linux',
  version: 'v20.0.0',
  versions: { node: '20.0.0' },
  browser: false,
  cwd: () => '/',
  nextTick: (callback, ...args) => queueMicrotask(() => callback(...args)),
  emitWarning: (warning) => console.warn(typeof warning === 'string' ? warning : warning.message),
  on: () => process,
  emit: () => false,
};
module.exports = process;
