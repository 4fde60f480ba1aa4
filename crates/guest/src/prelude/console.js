// console: every line goes to the host as it is written.
const CONSOLE = 1;
let indent = '';
const counts = new MapCtor();
const timers = new MapCtor();

const writeLine = (level, text) => {
  const shown = indent === '' ? text : indent + replaceAll(text, '\n', `\n${indent}`);
  native.emit(CONSOLE, stringify({ __proto__: null, level, text: wellFormed(shown) }));
};

const shownText = (value) => (typeof value === 'string' ? value : inspect(value));
const numberText = (value, whole) => {
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'symbol' || typeof value === 'object' || typeof value === 'function') return 'NaN';
  return primitiveText(whole ? trunc(+value) : +value);
};
const directive = (letter, value) => {
  switch (letter) {
    case 's': return typeof value === 'string' ? value : typeof value === 'object' && value !== null ? inspect(value, { depth: 1 }) : primitiveText(value);
    case 'd': return numberText(value, false);
    case 'i': return numberText(value, true);
    case 'f': return typeof value === 'symbol' ? 'NaN' : numberText(value, false);
    case 'j': try { return jsonText(value) ?? 'undefined'; } catch { return '[Circular]'; }
    case 'o': case 'O': return inspect(value);
    default: return '';
  }
};
const formatLine = (args) => {
  let text = '';
  let next = 0;
  if (args.length > 1 && typeof args[0] === 'string' && indexOf(args[0], '%') >= 0) {
    const format = args[0];
    next = 1;
    for (let i = 0; i < format.length; i++) {
      const letter = format[i + 1];
      if (format[i] !== '%' || letter === undefined || indexOf('sdifjoOc%', letter) < 0) { text += format[i]; continue; }
      if (letter === '%') { text += '%'; i += 1; continue; }
      if (next >= args.length) { text += format[i]; continue; }
      text += directive(letter, args[next]);
      next += 1;
      i += 1;
    }
  }
  for (; next < args.length; next++) text += text === '' && next === 0 ? shownText(args[next]) : ` ${shownText(args[next])}`;
  return text;
};

const cellText = (value) => (typeof value === 'object' && value !== null ? inspect(value, { depth: 0 }) : primitiveText(value));
const tableText = (rows) => {
  const widths = [];
  for (let i = 0; i < rows.length; i++) {
    for (let j = 0; j < rows[i].length; j++) widths[j] = max(widths[j] ?? 0, rows[i][j].length);
  }
  const rule = (left, middle, right) => {
    let text = left;
    for (let j = 0; j < widths.length; j++) text += (j === 0 ? '' : middle) + repeat('─', widths[j] + 2);
    return text + right;
  };
  let text = rule('┌', '┬', '┐');
  for (let i = 0; i < rows.length; i++) {
    text += '\n│';
    for (let j = 0; j < widths.length; j++) text += ` ${padEnd(rows[i][j] ?? '', widths[j])} │`;
    if (i === 0) text += `\n${rule('├', '┼', '┤')}`;
  }
  return `${text}\n${rule('└', '┴', '┘')}`;
};
const tableRows = (data) => {
  const rows = [['(index)']];
  const header = rows[0];
  const place = (row, column, value) => {
    let at = -1;
    for (let j = 1; j < header.length; j++) if (header[j] === column) at = j;
    if (at < 0) {
      at = header.length;
      if (at > ENTRIES_MAX) return;
      header[at] = column;
    }
    for (let j = row.length; j < at; j++) row[j] = '';
    row[at] = cellText(value);
  };
  const keys = ownKeys(data);
  const plain = [];
  for (let i = 0; i < keys.length && rows.length <= ENTRIES_MAX; i++) {
    const property = getOwnPropertyDescriptor(data, keys[i]);
    if (typeof keys[i] !== 'string' || !property.enumerable) continue;
    const row = [keys[i]];
    const value = property.value;
    if (typeof value === 'object' && value !== null && kindOf(value) !== 'proxy') {
      const columns = ownKeys(value);
      for (let j = 0; j < columns.length; j++) {
        const inner = getOwnPropertyDescriptor(value, columns[j]);
        if (typeof columns[j] === 'string' && inner.enumerable) place(row, columns[j], inner.value);
      }
    } else plain[plain.length] = { row, value };
    rows[rows.length] = row;
  }
  for (let i = 0; i < plain.length; i++) place(plain[i].row, 'Values', plain[i].value);
  return rows;
};

const elapsed = (label) => {
  const began = mapGet(timers, label);
  return began === undefined ? undefined : `${label}: ${toFixed(native.now() - began, 3)}ms`;
};
const consoleMethods = {
  log(...args) { writeLine('log', formatLine(args)); },
  info(...args) { writeLine('info', formatLine(args)); },
  warn(...args) { writeLine('warn', formatLine(args)); },
  error(...args) { writeLine('error', formatLine(args)); },
  debug(...args) { writeLine('debug', formatLine(args)); },
  trace(...args) { writeLine('error', `Trace: ${formatLine(args)}\n${stackOf(new ErrorCtor())}`); },
  dir(value, options) { writeLine('log', inspect(value, typeof options === 'object' && options !== null && typeof options.depth === 'number' ? { depth: options.depth } : undefined)); },
  table(data) {
    if (typeof data === 'object' && data !== null && kindOf(data) !== 'proxy') writeLine('log', tableText(tableRows(data)));
    else writeLine('log', shownText(data));
  },
  assert(condition, ...args) { if (!condition) writeLine('error', args.length === 0 ? 'Assertion failed' : `Assertion failed: ${formatLine(args)}`); },
  count(label = 'default') {
    const count = (mapGet(counts, label) ?? 0) + 1;
    mapSet(counts, label, count);
    writeLine('log', `${label}: ${count}`);
  },
  countReset(label = 'default') { mapDelete(counts, label); },
  group(...args) {
    if (args.length > 0) writeLine('log', formatLine(args));
    if (indent.length < 40) indent += '  ';
  },
  groupEnd() { indent = slice(indent, 2); },
  time(label = 'default') { mapSet(timers, label, native.now()); },
  timeLog(label = 'default', ...args) { writeLine('log', `${elapsed(label) ?? `No such label: ${label}`}${args.length > 0 ? ` ${formatLine(args)}` : ''}`); },
  timeEnd(label = 'default') {
    writeLine('log', elapsed(label) ?? `No such label: ${label}`);
    mapDelete(timers, label);
  },
};
const consoleObject = {};
for (const name in consoleMethods) method(consoleObject, name, consoleMethods[name]);
method(consoleObject, 'groupCollapsed', consoleMethods.group);
defineProperty(consoleObject, SymbolCtor.toStringTag, { __proto__: null, value: 'console', configurable: true });
expose('console', consoleObject);
