// Shows values: the engine does, and Node's own code where an option asks for what the engine has not.
const PLAIN = new Set(['depth', 'maxArrayLength', 'maxStringLength', 'breakLength', 'compact', 'showHidden', 'showProxy', 'customInspect', 'getters', 'sorted', 'stylize', 'colors', 'numericSeparator', 'seen', 'budget', 'indentationLvl', 'currentDepth']);
const whole = () => require('web/inspector');
let defaults;
const needsWhole = (options) => defaults !== undefined || options.colors || options.numericSeparator || options.showHidden || (typeof options.stylize === 'function' && options.seen !== undefined) || Object.keys(options).some((name) => !PLAIN.has(name));
const plain = (value, options) => natives.inspect(value, { __proto__: null, depth: 2, ...options });
function inspect(value, options) {
  if (arguments.length < 2 || options === undefined || options === null) return defaults === undefined ? plain(value) : whole().inspect(value);
  if (typeof options !== 'object') {
    if (arguments.length > 3 || arguments[3] || defaults !== undefined) return whole().inspect(...arguments);
    return plain(value, { showHidden: !!options, ...(arguments[2] === undefined ? undefined : { depth: arguments[2] }) });
  }
  return needsWhole(options) ? whole().inspect(value, options) : plain(value, options);
}
inspect.custom = Symbol.for('nodejs.util.inspect.custom');
for (const name of ['colors', 'styles']) {
  Object.defineProperty(inspect, name, { get: () => whole().inspect[name], configurable: true, enumerable: true });
}
const DEFAULTS = { showHidden: false, depth: 2, colors: false, customInspect: true, showProxy: false, maxArrayLength: 100, maxStringLength: 10000, breakLength: 128, compact: 3, sorted: false, getters: false, numericSeparator: false };
Object.defineProperty(inspect, 'defaultOptions', {
  get: () => {
    // Who has them in hand may change them.
    defaults ??= whole().inspect.defaultOptions;
    return defaults;
  },
  set: (value) => {
    whole().inspect.defaultOptions = value;
    defaults = whole().inspect.defaultOptions;
  },
  configurable: true, enumerable: true,
});
void DEFAULTS;
const format = (...args) => (defaults === undefined ? natives.formatLine(args) : whole().format(...args));
module.exports = {
  inspect, format,
  formatWithOptions: (options, ...args) => {
    require('web/validators').validateObject(options, 'inspectOptions', require('web/validators').kValidateObjectAllowArray);
    return whole().formatWithOptions(options, ...args);
  },
  stripVTControlCharacters: (text) => whole().stripVTControlCharacters(text),
  identicalSequenceRange: (...args) => whole().identicalSequenceRange(...args),
  getStringWidth: (text) => whole().getStringWidth(text),
  formatBigInt: (...args) => whole().formatBigInt(...args), formatNumber: (...args) => whole().formatNumber(...args), formatProperty: (...args) => whole().formatProperty(...args),
};
