// console: every line goes to the host as it is written, formatted as Node formats it.
const CONSOLE = 1;
const GROUP_CHARS = 2;
const GROUP_CHARS_MAX = 1000;
const LABELS_MAX = 1000;
let indent = '';
const counts = new MapCtor();
const timers = new MapCtor();

const emitLine = (level, text) => { native.emit(CONSOLE, `{"level":"${level}","text":${stringify(wellFormed(text))}}`); };
// Streams whose `write` is a script's own, by their descriptors: they get what would be a line.
const redirected = { __proto__: null, 1: undefined, 2: undefined };
const writeLine = (level, text) => {
  const shown = indent === '' ? text : indent + replaceAll(text, '\n', `\n${indent}`);
  const stream = redirected[level === 'warn' || level === 'error' ? 2 : 1];
  if (stream === undefined) emitLine(level, shown);
  else stream.write(`${shown}\n`);
};
// To the first place, and everything from there on away.
const CLEAR_SCREEN = ['\u001b[1;1H', '\u001b[0J'];

const shownText = (value) => (typeof value === 'string' ? value : inspect(value));

const languageNames = new SetCtor();
for (const name of ObjectCtor.getOwnPropertyNames(global)) if (regexExec(/^[A-Z][a-zA-Z0-9]+$/, name) !== null) setAdd(languageNames, name);
// Whether the text of an object is what the language gives it, and so says little.
const hasOwnText = (object) => {
  if (isProxy(object)) return false;
  for (let p = object; p !== null && !isProxy(p); p = getPrototypeOf(p)) {
    if (typeof ownData(p, 'toString') !== 'function' && typeof ownData(p, SymbolCtor.toPrimitive) !== 'function') continue;
    const maker = p === object ? undefined : ownData(p, 'constructor');
    const name = typeof maker === 'function' ? ownData(maker, 'name') : undefined;
    return !(typeof name === 'string' && setHas(languageNames, name));
  }
  return false;
};
const asNumber = (value, read) => (typeof value === 'bigint' && read !== parseFloat ? `${value}n` : typeof value === 'symbol' ? 'NaN' : numberText(read(value)));
const jsonOf = (value) => {
  try { return stringify(value); } catch (error) {
    if (isErrorObject(error) && dataProperty(error, 'name') === 'TypeError' && indexOf(textOf(dataProperty(error, 'message'), ''), 'circular') >= 0) return '[Circular]';
    throw error;
  }
};
const directive = (letter, value) => {
  switch (letter) {
    case 's':
      if (typeof value === 'number') return numberText(value);
      if (typeof value === 'bigint') return `${value}n`;
      return typeof value !== 'object' || value === null || hasOwnText(value) ? StringCtor(value) : inspect(value, { __proto__: null, depth: 0 });
    case 'd': return asNumber(value, NumberCtor);
    case 'i': return asNumber(value, parseInt);
    case 'f': return asNumber(value, parseFloat);
    case 'j': return `${jsonOf(value)}`;
    case 'o': return inspect(value, { __proto__: null, showHidden: true, showProxy: true, depth: 4 });
    case 'O': return inspect(value);
    default: return '';
  }
};
const formatLine = (args) => {
  const first = args[0];
  if (args.length === 1) return shownText(first);
  let text = '';
  let next = 0;
  if (typeof first === 'string' && indexOf(first, '%') >= 0) {
    let from = 0;
    for (let i = 0; i < first.length - 1; i++) {
      if (first[i] !== '%') continue;
      const letter = first[i + 1];
      i += 1;
      if (letter === '%') {
        text += slice(first, from, i);
        from = i + 1;
      } else if (next + 1 < args.length && indexOf('sdifjoOc', letter) >= 0) {
        text += slice(first, from, i - 1);
        next += 1;
        text += directive(letter, args[next]);
        from = i + 1;
      }
    }
    if (from > 0) {
      next += 1;
      text += slice(first, from);
      for (; next < args.length; next++) text += ` ${shownText(args[next])}`;
      return text;
    }
  }
  for (; next < args.length; next++) text += next === 0 ? shownText(args[next]) : ` ${shownText(args[next])}`;
  return text;
};

const twoDigits = (value) => padStart(`${value}`, 2, '0');
const durationText = (ms) => {
  if (ms < 1000) return `${+toFixed(ms, 3)}ms`;
  if (ms < 60000) return `${toFixed(ms / 1000, 3)}s`;
  const hours = floor(ms / 3600000);
  const minutes = floor((ms % 3600000) / 60000);
  const seconds = padStart(toFixed((ms % 60000) / 1000, 3), 6, '0');
  return hours !== 0 ? `${hours}:${twoDigits(minutes)}:${seconds} (h:mm:ss.mmm)` : `${minutes}:${seconds} (m:ss.mmm)`;
};
const tellElapsed = (label, name, args) => {
  const began = mapGet(timers, label);
  if (began === undefined) {
    writeLine('warn', `Warning: No such label '${label}' for console.${name}()`);
    return;
  }
  let text = `${label}: ${durationText(native.now() - began)}`;
  for (let i = 0; i < args.length; i++) text += ` ${shownText(args[i])}`;
  writeLine('log', text);
};
const remember = (map, label, value) => {
  if (mapHas(map, label) || mapSize(map) < LABELS_MAX) mapSet(map, label, value);
};

const consoleMethods = {
  log(...args) { writeLine('log', formatLine(args)); },
  info(...args) { writeLine('info', formatLine(args)); },
  warn(...args) { writeLine('warn', formatLine(args)); },
  error(...args) { writeLine('error', formatLine(args)); },
  debug(...args) { writeLine('debug', formatLine(args)); },
  dir(value = undefined, options = undefined) { writeLine('log', inspect(value, { __proto__: null, customInspect: false, ...options })); },
  dirxml(...args) { writeLine('log', formatLine(args)); },
  trace(...args) {
    const text = args.length === 0 ? '' : formatLine(args);
    const frames = framesOf(new ErrorCtor());
    writeLine('error', `Trace${text === '' ? '' : `: ${text}`}${frames === '' ? '' : `\n${frames}`}`);
  },
  table(data = undefined, columns = undefined) {
    if (columns !== undefined && !isArray(columns)) throw new TypeErrorCtor('the columns of console.table must be an array');
    writeLine('log', typeof data === 'object' && data !== null ? tableText(data, columns) : shownText(data));
  },
  assert(condition = false, ...args) {
    if (condition) return;
    args[0] = `Assertion failed${args.length === 0 ? '' : `: ${typeof args[0] === 'string' ? args[0] : inspect(args[0])}`}`;
    writeLine('error', formatLine(args));
  },
  clear() { for (let i = 0; redirected[1]?.isTTY && i < CLEAR_SCREEN.length; i++) redirected[1].write(CLEAR_SCREEN[i]); },
  count(label = 'default') {
    label = `${label}`;
    const count = (mapGet(counts, label) ?? 0) + 1;
    remember(counts, label, count);
    writeLine('log', `${label}: ${count}`);
  },
  countReset(label = 'default') {
    label = `${label}`;
    if (!mapDelete(counts, label)) writeLine('warn', `Warning: Count for '${label}' does not exist`);
  },
  group(...args) {
    if (args.length > 0) writeLine('log', formatLine(args));
    if (indent.length < GROUP_CHARS_MAX) indent += repeat(' ', GROUP_CHARS);
  },
  groupEnd() { indent = slice(indent, GROUP_CHARS); },
  time(label = 'default') {
    label = `${label}`;
    if (mapHas(timers, label)) writeLine('warn', `Warning: Label '${label}' already exists for console.time()`);
    else remember(timers, label, native.now());
  },
  timeLog(label = 'default', ...args) { tellElapsed(`${label}`, 'timeLog', args); },
  timeEnd(label = 'default') {
    label = `${label}`;
    tellElapsed(label, 'timeEnd', []);
    mapDelete(timers, label);
  },
};
const consoleObject = create({});
const member = (name, value) => defineProperty(consoleObject, name, { __proto__: null, value, writable: true, configurable: true, enumerable: true });
for (const name in consoleMethods) member(name, consoleMethods[name]);
member('groupCollapsed', consoleMethods.group);
defineProperty(consoleObject, SymbolCtor.toStringTag, { __proto__: null, value: 'console', configurable: true });
expose('console', consoleObject);
