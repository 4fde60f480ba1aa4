// A value as a person reads it. Runs no script: getters are named, not called, and proxies are not asked.
const LINE_CHARS = 76;
const TEXT_CHARS_MAX = 16384;
const STRING_CHARS_MAX = 4096;
const ENTRIES_MAX = 100;
const DEPTH_MAX = 4;

const quote = (text) => {
  const cut = text.length > STRING_CHARS_MAX ? slice(text, 0, STRING_CHARS_MAX) : text;
  const json = stringify(cut);
  let body = slice(json, 1, -1);
  let out;
  if (indexOf(body, "'") < 0) out = `'${replaceAll(body, '\\"', '"')}'`;
  else if (indexOf(body, '\\"') < 0) out = json;
  else if (indexOf(body, '`') < 0) out = `\`${replaceAll(body, '\\"', '"')}\``;
  else out = `'${replaceAll(replaceAll(body, '\\"', '"'), "'", "\\'")}'`;
  return cut === text ? out : `${out}... ${text.length - STRING_CHARS_MAX} more characters`;
};
const join = (list, separator) => {
  let text = '';
  for (let i = 0; i < list.length; i++) text += i === 0 ? list[i] : separator + list[i];
  return text;
};
const replaceAll = (text, what, by) => join(split(text, what), by);

const identifier = /^[A-Za-z_$][\w$]*$/;
const keyText = (key) => (typeof key === 'symbol' ? `[${symbolToString(key)}]` : regexExec(identifier, key) !== null ? key : quote(key));

const constructorName = (object) => {
  for (let p = getPrototypeOf(object), depth = 0; p !== null && depth < 100 && kindOf(p) !== 'proxy'; p = getPrototypeOf(p), depth++) {
    const made = getOwnPropertyDescriptor(p, 'constructor');
    if (made !== undefined && typeof made.value === 'function' && kindOf(made.value) !== 'proxy') {
      const name = getOwnPropertyDescriptor(made.value, 'name');
      if (name !== undefined && typeof name.value === 'string' && name.value !== '') return name.value;
    }
  }
  return null;
};
const dataProperty = (object, key) => {
  for (let p = object, depth = 0; p !== null && depth < 100 && kindOf(p) !== 'proxy'; p = getPrototypeOf(p), depth++) {
    const found = getOwnPropertyDescriptor(p, key);
    if (found !== undefined) return found.value;
  }
  return undefined;
};

// `typeof` of a value, or the class of an object.
const typeName = (value) => {
  if (value === null) return 'null';
  if (typeof value !== 'object') return typeof value;
  if (kindOf(value) === 'proxy') return 'Proxy';
  return constructorName(value) ?? 'Object';
};

const functionText = (fn) => {
  if (kindOf(fn) === 'proxy') return '[Proxy]';
  const own = getOwnPropertyDescriptor(fn, 'name');
  const name = own !== undefined && typeof own.value === 'string' ? own.value : '';
  const source = functionToString(fn);
  if (slice(source, 0, 5) === 'class' && regexExec(/^class[\s{]/, source) !== null) {
    const parent = getPrototypeOf(fn);
    const above = typeof parent === 'function' ? dataProperty(parent, 'name') : '';
    return `[class ${name === '' ? '(anonymous)' : name}${typeof above === 'string' && above !== '' ? ` extends ${above}` : ''}]`;
  }
  const label = constructorName(fn) ?? 'Function';
  return `[${label}${name === '' ? ' (anonymous)' : `: ${name}`}]`;
};

const ownFrames = (stack) => {
  const lines = split(stack, '\n');
  const kept = [];
  for (let i = 0; i < lines.length; i++) {
    if (trim(lines[i]) !== '' && indexOf(lines[i], 'dormouse:') < 0 && indexOf(lines[i], '(native)') < 0) kept[kept.length] = lines[i];
  }
  return join(kept, '\n');
};
const stackOf = (error) => {
  try {
    const stack = kindOf(error) === 'error' ? errorStack(error) : undefined;
    return typeof stack === 'string' ? ownFrames(stack) : '';
  } catch { return ''; }
};
const errorHead = (error) => {
  const name = dataProperty(error, 'name');
  const message = dataProperty(error, 'message');
  const label = typeof name === 'string' && name !== '' ? name : constructorName(error) ?? 'Error';
  return typeof message === 'string' && message !== '' ? `${label}: ${message}` : label;
};

const primitiveText = (value) => {
  switch (typeof value) {
    case 'string': return quote(value);
    case 'number': return is(value, -0) ? '-0' : `${value}`;
    case 'bigint': return `${value}n`;
    case 'symbol': return symbolToString(value);
    case 'function': return functionText(value);
    default: return `${value}`;
  }
};

const inspect = (value, options) => {
  const state = { __proto__: null, left: TEXT_CHARS_MAX, depth: options?.depth ?? DEPTH_MAX, seen: [], circular: [] };
  const text = formatValue(state, value, 0);
  return text.length > TEXT_CHARS_MAX * 2 ? `${slice(text, 0, TEXT_CHARS_MAX * 2)}...` : text;
};
