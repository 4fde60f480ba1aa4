// How a cell ends, and what it shows.
const DISPLAY = 2;
const CELL = 3;
const VALUE = 4;

const isJson = { __proto__: null, object: true, array: true, number: true, string: true, boolean: true, date: true, arguments: true };
const valueJson = (value) => {
  switch (typeof value) {
    case 'string': case 'boolean': break;
    case 'number': if (!isFiniteNumber(value)) return undefined; break;
    case 'object': if (value !== null && !isJson[kindOf(value)]) return undefined; break;
    default: return undefined;
  }
  try {
    return jsonText(value);
  } catch {
    return undefined;
  }
};

// `_` is the last result, until a script gives it a value of its own: that of lodash, mostly.
let kept;
const keepResult = (value) => {
  const now = getOwnPropertyDescriptor(global, '_');
  if (now !== undefined && !is(now.value, kept)) return;
  try { expose('_', value); } catch { return; }
  kept = value;
};
const finish = (value) => {
  if (value !== undefined) keepResult(value);
  const json = valueJson(value);
  let preview;
  try {
    preview = inspect(value);
  } catch (error) {
    if (typeof error !== 'object' || error === null || kindOf(error) !== 'error') throw error;
    preview = `[${typeName(value)}]`;
  }
  if (json !== undefined) native.emit(VALUE, json);
  native.emit(CELL, stringify({ __proto__: null, ok: true, valueType: wellFormed(typeName(value)), preview: wellFormed(preview) }));
};

const MESSAGE_CHARS_MAX = 16384;
const describe = (error) => {
  if (typeof error === 'object' && error !== null && kindOf(error) === 'error') {
    const name = dataProperty(error, 'name');
    const message = dataProperty(error, 'message');
    const cause = getOwnPropertyDescriptor(error, 'cause');
    let stack = stackOf(error);
    if (cause !== undefined && cause.get === undefined && stack !== '') stack += `\nCaused by: ${inspect(cause.value)}`;
    return {
      name: typeof name === 'string' && name !== '' ? name : constructorName(error) ?? 'Error',
      message: typeof message === 'string' ? message : message === undefined ? '' : inspect(message),
      stack,
    };
  }
  return { name: typeName(error), message: typeof error === 'string' ? error : inspect(error), stack: '' };
};
const clip = (text) => wellFormed(text.length > MESSAGE_CHARS_MAX ? `${slice(text, 0, MESSAGE_CHARS_MAX)}...` : text);
const fail = (error, code) => {
  let told;
  try {
    told = describe(error);
  } catch (inner) {
    if (typeof inner !== 'object' || inner === null || kindOf(inner) !== 'error') throw inner;
    told = { name: 'Error', message: 'the exception cannot be shown', stack: '' };
  }
  const described = { __proto__: null, code, name: clip(told.name), message: clip(told.message), stack: clip(told.stack) };
  native.emit(CELL, stringify({ __proto__: null, ok: false, valueType: 'undefined', preview: '', error: described }));
};
const unhandled = (reason) => {
  const before = indent;
  indent = '';
  try { writeLine('error', `Uncaught (in promise) ${clip(shownText(reason))}`); } finally { indent = before; }
};

const richTypes = { __proto__: null, html: 'text/html', svg: 'image/svg+xml', png: 'image/png', markdown: 'text/markdown', text: 'text/plain' };
const bundle = (value) => {
  if (typeof value === 'string') return { mimeType: 'text/plain', data: value };
  if (typeof value === 'object' && value !== null && kindOf(value) === 'object') {
    const type = dataProperty(value, 'mimeType');
    const data = dataProperty(value, 'data');
    if (typeof type === 'string' && typeof data === 'string') return { mimeType: type, data };
    const keys = ownKeys(value);
    if (keys.length === 1 && typeof richTypes[keys[0]] === 'string' && typeof dataProperty(value, keys[0]) === 'string') {
      return { mimeType: richTypes[keys[0]], data: value[keys[0]] };
    }
  }
  const json = typeof value === 'object' && value !== null ? valueJson(value) : undefined;
  return json === undefined ? { mimeType: 'text/plain', data: inspect(value) } : { mimeType: 'application/json', data: json };
};
expose('display', function display(value) {
  const shown = bundle(value);
  native.emit(DISPLAY, stringify({ __proto__: null, mimeType: wellFormed(shown.mimeType), data: wellFormed(shown.data) }));
});

return {
  boot() { timeOrigin = native.now(); },
  finish,
  fail,
  deliver,
  unhandled,
  moduleExports,
};
