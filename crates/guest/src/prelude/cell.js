// How a cell ends, and what it shows. A short value goes with the end, any other before it: it may be deeper than the host reads.
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
const tellPrimitive = (type, json, text) => {
  native.emit(CELL, `{"ok":true,"value":${json},"valueType":"${type}","preview":"${text}"}`);
};
// What the cell said is its value, whatever its last expression is: `{ value }`.
let final;
method(hostObject, 'final', function finalValue(value) { final = { __proto__: null, value }; });
const finish = (last) => {
  const value = final === undefined ? last : final.value;
  if (value === undefined) return tellPrimitive('undefined', 'null', 'undefined');
  keepResult(value);
  if (typeof value === 'boolean') return tellPrimitive('boolean', value, value);
  if (typeof value === 'number' && isFiniteNumber(value)) return tellPrimitive('number', value, numberText(value));
  const json = valueJson(value);
  const shown = preview(value);
  if (json !== undefined) native.emit(VALUE, json);
  native.emit(CELL, `{"ok":true,"valueType":${stringify(wellFormed(typeName(value)))},"preview":${stringify(wellFormed(shown))}}`);
};

const MESSAGE_CHARS_MAX = 16384;
const ERRORS_TOLD_MAX = 10;
// Whoever throws decides what is said: unlike in a preview, a getter runs.
const said = (error, key) => {
  const property = findProperty(error, key);
  if (property === undefined || property.get === undefined) return property?.value;
  try { return error[key]; } catch { return undefined; }
};
const describe = (error) => {
  if (isErrorObject(error) || isDomException(error)) {
    const name = said(error, 'name');
    const message = said(error, 'message');
    const cause = getOwnPropertyDescriptor(error, 'cause');
    const errors = ownData(error, 'errors');
    let stack = framesOf(error);
    if (cause !== undefined && cause.get === undefined) stack += `\nCaused by: ${preview(cause.value)}`;
    for (let i = 0; isArray(errors) && i < errors.length && i < ERRORS_TOLD_MAX; i++) stack += `\nError ${i + 1} of ${errors.length}: ${preview(ownData(errors, i))}`;
    return {
      name: typeof name === 'string' && name !== '' ? name : constructorName(error) ?? 'Error',
      message: typeof message === 'string' ? message : message === undefined ? '' : preview(message),
      stack,
    };
  }
  return { name: typeName(error), message: typeof error === 'string' ? error : preview(error), stack: '' };
};
const clip = (text) => wellFormed(text.length > MESSAGE_CHARS_MAX ? `${slice(text, 0, MESSAGE_CHARS_MAX)}...` : text);
const fail = (error, code) => {
  let told;
  try {
    told = describe(error);
  } catch (inner) {
    if (!isErrorObject(inner)) throw inner;
    told = { name: 'Error', message: 'the exception cannot be shown', stack: '' };
  }
  const described = { __proto__: null, code, name: clip(told.name), message: clip(told.message), stack: clip(told.stack) };
  native.emit(CELL, stringify({ __proto__: null, ok: false, valueType: 'undefined', preview: '', error: described }));
};
// A request of the host's, for which no cell runs.
const ANSWER = 6;
const serve = (request) => {
  runningCell = '';
  native.emit(ANSWER, jsonText(loadModule('web/files').serve(request)));
};
// Code that a cell left behind failed: who, and in whose name it ran.
const unhandled = (reason, inPromise, isExit) => {
  try {
    if (!isExit && takeUncaught !== undefined && takeUncaught(reason, inPromise)) return;
  } catch (inner) {
    // What the listener throws is told instead.
    reason = inner;
    inPromise = false;
  }
  const before = indent;
  indent = '';
  try {
    const text = clip(`Uncaught ${inPromise ? '(in promise) ' : ''}${shownText(reason)}`);
    const named = runningCell === '' || indexOf(text, runningCell) >= 0;
    writeLine('error', named ? text : `${text}\n    in ${runningCell}`);
  } finally { indent = before; }
};

// What most sessions come to use is evaluated here already. A session shares these pages of the base image with every other one, so that it neither
// stores nor holds what it only reads.
const PRELOADED = [
  'node/buffer', 'node/events', 'node/fs', 'node/path', 'node/stream', 'node/util', 'web/abort', 'web/blob', 'web/clone', 'web/fetch',
  'web/form', 'web/globals', 'web/headers', 'web/streams', 'web/url',
];
for (let i = 0; i < PRELOADED.length; i++) if (isKnown(PRELOADED[i])) loadModule(PRELOADED[i]);
for (let at = 0; at < laters.length; at += 3) if (mapHas(modules, laters[at + 2])) readLater(at);

return {
  boot() { timeOrigin = native.now(); },
  begin(cell) {
    native.setContext(undefined);
    native.setLife(create(null));
    runningCell = cell;
    final = undefined;
  },
  finish,
  fail,
  deliver,
  giveUpStopped,
  unhandled,
  moduleExports,
  resolveModule,
};
