// A value as a person reads it, in the form of Node's util.inspect (lib/internal/util/inspect.js of Node 20, MIT). Runs no script but what
// asks for it: a method under Symbol.for('nodejs.util.inspect.custom') and a getter of Symbol.toStringTag. Proxies are not asked.
const CONSOLE_DEPTH = 2;
const PREVIEW_DEPTH = 4;
const PREVIEW_CHARS_MAX = 16384;
const ENTRIES_MAX = 100;
const STRING_CHARS_MAX = 10000;
const BREAK_CHARS = 80;
const COMPACT_LEVELS = 3;
// Longer arrays are not searched for keys that are no indexes.
const KEYED_LENGTH_MAX = 10000;
const CHAIN_MAX = 1000;
const customInspect = SymbolCtor.for('nodejs.util.inspect.custom');

const join = (list, separator) => {
  let text = '';
  for (let i = 0; i < list.length; i++) text += i === 0 ? list[i] : separator + list[i];
  return text;
};
const replaceAll = (text, what, by) => join(split(text, what), by);
const append = (entries, others) => {
  for (let i = 0; i < others.length; i++) entries[entries.length] = others[i];
  return entries;
};

const unsafeCharacters = /[\x00-\x1f\x27\x5c\x7f-\x9f\ud800-\udfff]/;
const shortEscapes = { __proto__: null, 8: '\\b', 9: '\\t', 10: '\\n', 12: '\\f', 13: '\\r', 92: '\\\\' };
const hexUpper = (code) => {
  const hex = toRadix(code, 16);
  let text = '';
  for (let i = 0; i < hex.length; i++) {
    const digit = charCodeAt(hex, i);
    text += digit >= 97 ? 'ABCDEF'[digit - 97] : hex[i];
  }
  return text;
};
// The text with control characters, backslashes, halves of surrogate pairs and `quoteCode` escaped.
const escapeText = (text, quoteCode) => {
  let out = '';
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    const code = charCodeAt(text, i);
    let escaped;
    if (code < 32 || code === 92) escaped = shortEscapes[code] ?? `\\x${code < 16 ? '0' : ''}${hexUpper(code)}`;
    else if (code === quoteCode) escaped = `\\${text[i]}`;
    else if (code > 126 && code < 160) escaped = `\\x${hexUpper(code)}`;
    else if (code >= 0xd800 && code <= 0xdfff) {
      const next = code <= 0xdbff && i + 1 < text.length ? charCodeAt(text, i + 1) : 0;
      if (next >= 0xdc00 && next <= 0xdfff) { i += 1; continue; }
      escaped = `\\u${toRadix(code, 16)}`;
    } else continue;
    out += slice(text, from, i) + escaped;
    from = i + 1;
  }
  return from === 0 ? text : out + slice(text, from);
};
const quote = (text) => {
  if (regexExec(unsafeCharacters, text) === null) return `'${text}'`;
  if (indexOf(text, "'") < 0) return `'${escapeText(text, 39)}'`;
  if (indexOf(text, '"') < 0) return `"${escapeText(text, -1)}"`;
  if (indexOf(text, '`') < 0 && indexOf(text, '${') < 0) return `\`${escapeText(text, -1)}\``;
  return `'${escapeText(text, 39)}'`;
};

// Columns that a terminal gives the text.
const isWide = (code) => code >= 0x1100 && (code <= 0x115f || code === 0x2329 || code === 0x232a || (code >= 0x2e80 && code <= 0x3247 && code !== 0x303f)
  || (code >= 0x3250 && code <= 0x4dbf) || (code >= 0x4e00 && code <= 0xa4c6) || (code >= 0xa960 && code <= 0xa97c) || (code >= 0xac00 && code <= 0xd7a3)
  || (code >= 0xf900 && code <= 0xfaff) || (code >= 0xfe10 && code <= 0xfe19) || (code >= 0xfe30 && code <= 0xfe6b) || (code >= 0xff01 && code <= 0xff60)
  || (code >= 0xffe0 && code <= 0xffe6) || (code >= 0x1b000 && code <= 0x1b001) || (code >= 0x1f200 && code <= 0x1f251)
  || (code >= 0x1f300 && code <= 0x1f64f) || (code >= 0x1f680 && code <= 0x1f6ff) || (code >= 0x1f900 && code <= 0x1f9ff) || (code >= 0x20000 && code <= 0x3fffd));
const isZeroWidth = (code) => code < 32 || (code >= 0x7f && code <= 0x9f) || (code >= 0x300 && code <= 0x36f) || (code >= 0x200b && code <= 0x200f)
  || (code >= 0x20d0 && code <= 0x20ff) || (code >= 0xfe00 && code <= 0xfe0f) || (code >= 0xfe20 && code <= 0xfe2f) || (code >= 0xe0100 && code <= 0xe01ef);
const asciiText = /^[\x20-\x7e]*$/;
const textWidth = (text) => {
  if (regexExec(asciiText, text) !== null) return text.length;
  const normal = normalize(text, 'NFC');
  let width = 0;
  for (let i = 0; i < normal.length; i++) {
    const code = codePointAt(normal, i);
    if (code > 0xffff) i += 1;
    width += isWide(code) ? 2 : isZeroWidth(code) ? 0 : 1;
  }
  return width;
};

// The first descriptor of `key` on the prototype chain, as far as no proxy is in the way.
const findProperty = (object, key) => {
  for (let p = object, depth = 0; p !== null && depth < CHAIN_MAX && !isProxy(p); p = getPrototypeOf(p), depth++) {
    const found = getOwnPropertyDescriptor(p, key);
    if (found !== undefined) return found;
  }
  return undefined;
};
const dataProperty = (object, key) => findProperty(object, key)?.value;
const ownData = (object, key) => getOwnPropertyDescriptor(object, key)?.value;

// Whether the chain is that of a literal: no proxy is on it, so `in` asks nobody.
const isLiteral = (object) => {
  const prototype = getPrototypeOf(object);
  return prototype === objectPrototype || (prototype === arrayPrototype && getPrototypeOf(arrayPrototype) === objectPrototype);
};

// What `instanceof` says when no script has a say.
const isInstance = (object, maker) => {
  if (isProxy(maker)) return false;
  const prototype = ownData(maker, 'prototype');
  if (typeof prototype !== 'object' || prototype === null) return false;
  for (let p = getPrototypeOf(object), depth = 0; p !== null && depth < CHAIN_MAX; p = getPrototypeOf(p), depth++) {
    if (p === prototype) return true;
    if (isProxy(p)) return false;
  }
  return false;
};
// The name of what made the object, or null when its chain has none.
const constructorName = (object) => {
  if (getPrototypeOf(object) === objectPrototype && !hasOwn(object, 'constructor')) return 'Object';
  for (let p = object, depth = 0; p !== null && depth < CHAIN_MAX && !isProxy(p); p = getPrototypeOf(p), depth++) {
    if (p !== object) {
      if (p === objectPrototype) return 'Object';
      if (p === functionPrototype) return 'Function';
    }
    const maker = ownData(p, 'constructor');
    if (typeof maker !== 'function' || !isInstance(object, maker)) continue;
    const name = ownData(maker, 'name');
    if (typeof name === 'string' && name !== '') return name;
  }
  return null;
};

// `typeof` of a value, or the class of an object.
const typeName = (value) => {
  if (value === null) return 'null';
  if (typeof value !== 'object') return typeof value;
  if (isProxy(value)) return 'Proxy';
  return constructorName(value) ?? 'Object';
};

const numberText = (value) => (value === 0 && is(value, -0) ? '-0' : `${value}`);
const primitiveText = (value) => {
  switch (typeof value) {
    case 'string': return quote(value);
    case 'number': return numberText(value);
    case 'bigint': return `${value}n`;
    case 'symbol': return symbolToString(value);
    default: return `${value}`;
  }
};

const newState = () => ({
  __proto__: null, depth: CONSOLE_DEPTH, entries: ENTRIES_MAX, chars: STRING_CHARS_MAX, width: BREAK_CHARS, compact: COMPACT_LEVELS,
  hidden: false, custom: true, proxies: false, marked: false, getters: false, sorted: undefined, options: undefined,
  left: Infinity, indent: 0, reached: 0, seen: [], circular: [],
});
const limitOf = (given, otherwise) => (given === null ? Infinity : typeof given === 'number' ? max(given, 0) : otherwise);
const readOptions = (state, options) => {
  state.options = options;
  if (options.depth !== undefined) state.depth = options.depth === null ? Infinity : +options.depth;
  state.entries = limitOf(options.maxArrayLength, state.entries);
  state.chars = limitOf(options.maxStringLength, state.chars);
  if (typeof options.breakLength === 'number') state.width = options.breakLength;
  if (options.compact !== undefined) state.compact = options.compact === true ? 3 : options.compact === false ? 0 : +options.compact;
  if (options.showHidden !== undefined) state.hidden = !!options.showHidden;
  if (options.showProxy !== undefined) state.proxies = !!options.showProxy;
  if (options.customInspect !== undefined) state.custom = !!options.customInspect;
  if (options.getters !== undefined) state.getters = options.getters;
  if (options.sorted !== undefined) state.sorted = options.sorted;
};

// As the console writes it. `options` are those of Node's util.inspect, without colors.
const inspect = (value, options) => {
  const state = newState();
  if (typeof options === 'object' && options !== null) readOptions(state, options);
  return formatValue(state, value, 0, false);
};
// What a custom inspection is handed, and what embedded libraries find.
const publicInspect = (value, options) => inspect(value, options);
method(publicInspect, 'custom', customInspect);

// As the answer of a cell shows it: deeper than the console, cut at a length, proxies marked.
const preview = (value) => {
  if (typeof value !== 'object' && typeof value !== 'function') {
    if (typeof value !== 'string') return primitiveText(value);
    if (value.length <= 16) return quote(value);
  }
  const state = newState();
  state.depth = PREVIEW_DEPTH;
  state.left = PREVIEW_CHARS_MAX;
  state.marked = true;
  let text;
  try {
    text = formatValue(state, value, 0, false);
  } catch (error) {
    if (!isErrorObject(error)) throw error;
    state.custom = false;
    state.indent = 0;
    state.seen = [];
    text = formatValue(state, value, 0, false);
  }
  return text.length > PREVIEW_CHARS_MAX * 2 ? `${slice(text, 0, PREVIEW_CHARS_MAX * 2)}...` : text;
};
