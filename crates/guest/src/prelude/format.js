// Objects, one level at a time.
const prefixOf = (name, tag, fallback, size) => {
  const count = size === undefined ? '' : `(${size})`;
  if (name === null) return `[${fallback}${count}: null prototype] ${tag !== '' && fallback !== tag ? `[${tag}] ` : ''}`;
  return tag !== '' && name !== tag ? `${name}${count} [${tag}] ` : `${name}${count} `;
};
const fallbackNames = {
  __proto__: null, array: 'Array', map: 'Map', set: 'Set', error: 'Error', date: 'Date', regexp: 'RegExp', promise: 'Promise', weakmap: 'WeakMap', weakset: 'WeakSet',
  weakref: 'WeakRef', buffer: 'ArrayBuffer', sharedbuffer: 'SharedArrayBuffer', view: 'DataView', number: 'Number', string: 'String', boolean: 'Boolean', symbol: 'Symbol', bigint: 'BigInt',
};
const fallbackOf = (object, what) => (what === 'typed' ? typedTag(object) : typeof object === 'function' ? 'Function' : fallbackNames[what] ?? 'Object');

// The name of the constructor; of an object whose chain has none, what it is made from.
const nameOf = (state, object, what, depth) => {
  const name = constructorName(object);
  if (name !== null) return name;
  const first = getPrototypeOf(object);
  if (first === null) return null;
  const kindName = fallbackOf(object, what);
  if (depth > state.depth) return `${kindName} <Complex prototype>`;
  if (isProxy(first)) return `${kindName} <Proxy>`;
  const above = nameOf(state, first, kindOf(first), depth + 1);
  return `${kindName} <${above === null ? inspect(first, { __proto__: null, depth: -1, customInspect: false }) : above}>`;
};
const tagOf = (state, object) => {
  if (isLiteral(object) && !(toStringTag in object)) return '';
  const found = findProperty(object, toStringTag);
  if (found === undefined) return '';
  let tag = found.value;
  if (found.get !== undefined) {
    try { tag = apply(found.get, object, []); } catch { return ''; }
  }
  if (typeof tag !== 'string' || tag === '') return '';
  const own = getOwnPropertyDescriptor(object, toStringTag);
  return own !== undefined && (own.enumerable || state.hidden) ? '' : tag;
};

const stringText = (state, text) => {
  const cut = text.length > state.chars ? slice(text, 0, state.chars) : text;
  const hidden = text.length - cut.length;
  const trailer = hidden === 0 ? '' : `... ${hidden} more character${hidden > 1 ? 's' : ''}`;
  if (cut.length <= 16 || cut.length <= state.width - state.indent - 4 || indexOf(cut, '\n') < 0) return quote(cut) + trailer;
  const parts = split(cut, '\n');
  const lines = [];
  for (let i = 0; i < parts.length; i++) {
    if (i + 1 < parts.length) lines[i] = quote(`${parts[i]}\n`);
    else if (parts[i] !== '') lines[i] = quote(parts[i]);
  }
  return join(lines, ` +\n${indentation(state)}  `) + trailer;
};

const spend = (state, text) => {
  state.left -= text.length;
  return text;
};
const callCustom = (state, value, target, depth) => {
  if (isLiteral(target) && !(customInspect in target)) return undefined;
  const found = findProperty(target, customInspect);
  const custom = found?.value;
  if (typeof custom !== 'function' || custom === publicInspect) return undefined;
  const maker = dataProperty(target, 'constructor');
  if (typeof maker === 'function' && !isProxy(maker) && ownData(maker, 'prototype') === target) return undefined;
  const options = { ...state.options, depth: state.depth, stylize: (text) => `${text}` };
  const shown = apply(custom, value, [state.depth - depth, options, publicInspect]);
  if (shown === value) return undefined;
  if (typeof shown !== 'string') return formatValue(state, shown, depth, false);
  return spend(state, replaceAll(shown, '\n', `\n${indentation(state)}`));
};
const formatValue = (state, value, depth, inTyped) => {
  if (typeof value !== 'object' && typeof value !== 'function') {
    return spend(state, typeof value === 'string' ? stringText(state, value) : primitiveText(value));
  }
  if (value === null) return 'null';
  if (!isProxy(value)) return formatTarget(state, value, value, depth, inTyped);
  let target = value;
  while (isProxy(target)) target = native.proxyTarget(target);
  if (target === null) return '<Revoked Proxy>';
  if (state.proxies) return formatProxy(state, value, depth);
  const text = formatTarget(state, value, target, depth, inTyped);
  return state.marked ? `Proxy(${text})` : text;
};
// `target` is the value, or what stands behind it when it is a proxy.
const formatTarget = (state, value, target, depth, inTyped) => {
  if (state.custom) {
    const custom = callCustom(state, value, target, depth);
    if (custom !== undefined) return custom;
  }
  for (let i = 0; i < state.seen.length; i++) {
    if (state.seen[i] !== target) continue;
    let number = 0;
    while (number < state.circular.length && state.circular[number] !== target) number += 1;
    state.circular[number] = target;
    return `[Circular *${number + 1}]`;
  }
  return formatObject(state, target, depth, inTyped);
};
const formatProxy = (state, proxy, depth) => {
  if (depth > state.depth) return 'Proxy [Array]';
  state.indent += 2;
  const parts = [formatValue(state, native.proxyTarget(proxy), depth + 1, false), formatValue(state, native.proxyHandler(proxy), depth + 1, false)];
  state.indent -= 2;
  return layout(state, parts, '', 'Proxy [', ']', depth + 1, { __proto__: null, numeric: true });
};

const isIndex = (key) => typeof key === 'string' && key !== '' && charCodeAt(key, 0) <= 57 && charCodeAt(key, 0) >= 48 && `${+key >>> 0}` === key && +key !== 4294967295;
// Own keys to show, names before symbols.
const keysOf = (state, object, what) => {
  const indexed = what === 'array' || what === 'typed' || what === 'string';
  if (indexed && (what === 'typed' ? typedLength(object) : ownData(object, 'length')) > KEYED_LENGTH_MAX) return [];
  if (what === 'object' && !state.hidden) {
    const symbols = getOwnPropertySymbols(object);
    const names = enumerableKeys(object);
    for (let i = 0; i < symbols.length; i++) if (isEnumerable(object, symbols[i])) names[names.length] = symbols[i];
    return names;
  }
  const all = ownKeys(object);
  const keys = [];
  for (let i = 0; i < all.length; i++) {
    const key = all[i];
    if (indexed && isIndex(key)) continue;
    if ((what === 'error' || what === 'domexception') && key === 'stack') continue;
    if (state.hidden || isEnumerable(object, key)) keys[keys.length] = key;
  }
  return keys;
};

const plainKey = /^[a-zA-Z_][a-zA-Z_0-9]*$/;
const keyText = (key, enumerable) => {
  if (typeof key === 'symbol') return `[${escapeText(symbolToString(key), 39)}]`;
  if (key === '__proto__') return "['__proto__']";
  if (!enumerable) return `[${escapeText(key, 39)}]`;
  return regexExec(plainKey, key) !== null ? key : quote(key);
};
const getterText = (state, object, property, depth) => {
  const label = property.set !== undefined ? 'Getter/Setter' : 'Getter';
  const wanted = state.getters === true || (state.getters === 'get' && property.set === undefined) || (state.getters === 'set' && property.set !== undefined);
  if (!wanted) return `[${label}]`;
  try {
    const value = apply(property.get, object, []);
    state.indent += 2;
    const text = formatValue(state, value, depth, false);
    state.indent -= 2;
    return typeof value === 'object' && value !== null ? `[${label}] ${text}` : `[${label}: ${text}]`;
  } catch (error) {
    return `[${label}: <Inspection threw (${isErrorObject(error) ? dataProperty(error, 'message') : primitiveText(error)})>]`;
  }
};
const propertyValue = (state, object, property, depth) => {
  if (property.get !== undefined) return getterText(state, object, property, depth);
  if (property.set !== undefined) return '[Setter]';
  state.indent += 2;
  const text = formatValue(state, property.value, depth, false);
  state.indent -= 2;
  return text;
};
const propertyEntries = (state, object, keys, depth, output) => {
  for (let i = 0; i < keys.length; i++) {
    if (state.left <= 0) {
      output[output.length] = `... ${keys.length - i} more propert${keys.length - i === 1 ? 'y' : 'ies'}`;
      return output;
    }
    const property = getOwnPropertyDescriptor(object, keys[i]);
    if (property === undefined) continue;
    const label = spend(state, keyText(keys[i], property.enumerable));
    output[output.length] = `${label}: ${propertyValue(state, object, property, depth)}`;
  }
  return output;
};

const builtinClass = /^class[\s{]/;
// A class of ours has no text: it is told by its prototype, which cannot be replaced.
const codeClass = classId(() => {});
const isClass = (fn) => {
  const text = functionToString(fn);
  return regexExec(builtinClass, text) !== null || (classId(fn) === codeClass && indexOf(text, '[native code]') >= 0 && getOwnPropertyDescriptor(fn, 'prototype')?.writable === false);
};
const classText = (fn, name, tag) => {
  const own = ownData(fn, 'name');
  let text = `class ${typeof own === 'string' && own !== '' ? own : '(anonymous)'}`;
  if (name !== 'Function' && name !== null) text += ` [${name}]`;
  if (tag !== '' && name !== tag) text += ` [${tag}]`;
  if (name === null) return `[${text} extends [null prototype]]`;
  const parent = getPrototypeOf(fn);
  const above = parent === null || isProxy(parent) ? '' : dataProperty(parent, 'name');
  return `[${text}${typeof above === 'string' && above !== '' ? ` extends ${above}` : ''}]`;
};
const functionTypes = { __proto__: null, genfunction: 'GeneratorFunction', asyncfunction: 'AsyncFunction', asyncgenfunction: 'AsyncGeneratorFunction' };
const functionText = (fn, name, tag, what) => {
  if (isClass(fn)) return classText(fn, name, tag);
  const type = functionTypes[what] ?? 'Function';
  const own = dataProperty(fn, 'name');
  let text = `[${type}${name === null ? ' (null prototype)' : ''}${typeof own === 'string' && own !== '' ? `: ${own}` : ' (anonymous)'}]`;
  if (name !== type && name !== null) text += ` ${name}`;
  if (tag !== '' && name !== tag) text += ` [${tag}]`;
  return text;
};

const formatObject = (state, object, depth, inTyped) => {
  const what = kindOf(object);
  const name = nameOf(state, object, what, depth);
  const tag = what === 'typed' ? typedTag(object) : tagOf(state, object);
  const keys = keysOf(state, object, what);
  const shape = shapeOf(state, object, what, name, tag, keys, inTyped);
  if (typeof shape === 'string') return spend(state, shape);
  if (depth > state.depth) {
    const label = slice(prefixOf(name, tag, fallbackOf(object, what)), 0, -1);
    return spend(state, name === null ? label : `[${label}]`);
  }
  state.seen[state.seen.length] = object;
  state.reached = depth + 1;
  const { indent } = state;
  let output;
  try {
    output = shape.entries === undefined ? [] : shape.entries(state, object, depth + 1, shape);
    if (shape.length !== undefined && state.hidden) output[output.length] = `[length]: ${shape.length}`;
    propertyEntries(state, object, keys, depth + 1, output);
  } catch (error) {
    state.seen.length -= 1;
    state.indent = indent;
    if (!isErrorObject(error) || dataProperty(error, 'message') !== 'Maximum call stack size exceeded') throw error;
    return `[${name ?? 'Object'}: Inspection interrupted prematurely. Maximum call stack size exceeded.]`;
  }
  state.seen.length -= 1;
  if (state.sorted && shape.grouping === undefined) sort(output, typeof state.sorted === 'function' ? state.sorted : undefined);
  let { base } = shape;
  for (let j = 0; j < state.circular.length; j++) {
    if (state.circular[j] === object) base = base === '' ? `<ref *${j + 1}>` : `<ref *${j + 1}> ${base}`;
  }
  return layout(state, output, base, shape.open, shape.close, depth + 1, shape.grouping);
};
