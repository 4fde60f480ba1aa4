// Node's own util; what shows a value is the engine's, or Node's where an option asks for more.
const util = require('lib/util');
require('lib/internal/util/debuglog').initializeDebugEnv(undefined);
const { inspect } = require('web/inspection');
const { codes: { ERR_INVALID_ARG_VALUE } } = require('web/errors');
const { validateString } = require('web/validators');

const styleText = (format, text) => {
  validateString(text, 'text');
  return [format].flat().reduceRight((shown, name) => {
    if (inspect.colors[name] === undefined) throw new ERR_INVALID_ARG_VALUE('format', name, `must be one of: ${Object.keys(inspect.colors).map((it) => `'${it}'`).join(', ')}`);
    const [begin, end] = inspect.colors[name];
    return `\u001b[${begin}m${shown}\u001b[${end}m`;
  }, text);
};
// What promisify makes of the timers.
for (const name of ['setTimeout', 'setImmediate']) {
  Object.defineProperty(globalThis[name], util.promisify.custom, { value: require('node/timers').promises[name], configurable: true });
}
// Read when somebody asks for one.
for (const name of ['MIMEType', 'MIMEParams']) Object.defineProperty(util, name, { get: () => require('web/mime')[name], enumerable: true, configurable: true });
const { parseArgs } = require('@pkgjs/parseargs');

Object.defineProperty(util, 'parseArgs', { value: parseArgs, enumerable: true, configurable: true, writable: true });
module.exports = Object.assign(util, { styleText, TextEncoder, TextDecoder, toUSVString: (text) => String(text).toWellFormed() });
