// Objects, one level at a time.
const formatValue = (state, value, depth) => {
  if (typeof value !== 'object' || value === null) {
    const text = primitiveText(value);
    state.left -= text.length;
    if (typeof value !== 'function' || kindOf(value) === 'proxy') return text;
    const extra = propertyEntries(state, value, depth, 'function');
    return extra.length === 0 ? text : layout(`${text} {`, extra, '}', false);
  }
  for (let i = 0; i < state.seen.length; i++) {
    if (state.seen[i] !== value) continue;
    let number = -1;
    for (let j = 0; j < state.circular.length; j++) if (state.circular[j] === value) number = j;
    if (number < 0) {
      number = state.circular.length;
      state.circular[number] = value;
    }
    return `[Circular *${number + 1}]`;
  }
  state.seen[state.seen.length] = value;
  let text;
  try {
    text = formatObject(state, value, depth);
  } finally {
    state.seen.length -= 1;
  }
  for (let j = 0; j < state.circular.length; j++) if (state.circular[j] === value) return `<ref *${j + 1}> ${text}`;
  return text;
};

const layout = (open, entries, close, packed) => {
  if (entries.length === 0) return open + close;
  let total = open.length + entries.length * 2;
  let lines = false;
  for (let i = 0; i < entries.length; i++) {
    total += entries[i].length;
    if (indexOf(entries[i], '\n') >= 0) lines = true;
  }
  if (!lines && total <= LINE_CHARS) return `${open} ${join(entries, ', ')} ${close}`;
  if (packed && !lines) {
    const rows = [];
    let row = '';
    for (let i = 0; i < entries.length; i++) {
      const next = i + 1 < entries.length ? `${entries[i]}, ` : entries[i];
      if (row.length + next.length > LINE_CHARS && row !== '') {
        rows[rows.length] = trim(row);
        row = '';
      }
      row += next;
    }
    rows[rows.length] = row;
    return `${open}\n  ${join(rows, '\n  ')}\n${close}`;
  }
  return `${open}\n  ${replaceAll(join(entries, ',\n'), '\n', '\n  ')}\n${close}`;
};

const isIndex = (key) => typeof key === 'string' && key !== '' && charCodeAt(key, 0) <= 57 && `${+key >>> 0}` === key;

const propertyText = (state, key, property, depth) => {
  let text;
  if (property.get !== undefined) text = property.set !== undefined ? '[Getter/Setter]' : '[Getter]';
  else if (property.set !== undefined) text = '[Setter]';
  else text = formatValue(state, property.value, depth + 1);
  const label = keyText(key);
  state.left -= label.length;
  return `${label}: ${text}`;
};

// Own enumerable properties; of arrays and strings without the indexes.
const propertyEntries = (state, object, depth, what) => {
  const entries = [];
  const indexed = what === 'array' || what === 'typed' || what === 'string' || what === 'arguments';
  if (what === 'typed' ? typedLength(object) > 1000 : indexed && dataProperty(object, 'length') > 1000) return entries;
  const keys = ownKeys(object);
  let hidden = 0;
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    if (indexed && (isIndex(key) || key === 'length')) continue;
    if (what === 'error' && (key === 'stack' || key === 'message' || key === 'cause')) continue;
    const property = getOwnPropertyDescriptor(object, key);
    if (property === undefined || !property.enumerable) continue;
    if (entries.length >= ENTRIES_MAX || state.left <= 0) hidden += 1;
    else entries[entries.length] = propertyText(state, key, property, depth);
  }
  if (hidden > 0) entries[entries.length] = `... ${hidden} more ${hidden === 1 ? 'property' : 'properties'}`;
  return entries;
};

const more = (entries, shown, all, what) => {
  if (all > shown) entries[entries.length] = `... ${all - shown} more ${what}${all - shown === 1 ? '' : 's'}`;
};
const append = (entries, others) => {
  for (let i = 0; i < others.length; i++) entries[entries.length] = others[i];
  return entries;
};

const arrayEntries = (state, array, depth) => {
  const entries = [];
  const length = array.length;
  let i = 0;
  for (let shown = 0; i < length && shown < ENTRIES_MAX && state.left > 0; shown++) {
    const property = getOwnPropertyDescriptor(array, i);
    if (property === undefined) {
      const from = i;
      while (i < length && i - from < 1000000 && !hasOwn(array, i)) i += 1;
      entries[entries.length] = `<${i - from} empty item${i - from === 1 ? '' : 's'}>`;
      continue;
    }
    entries[entries.length] = property.get !== undefined || property.set !== undefined ? '[Getter]' : formatValue(state, property.value, depth + 1);
    i += 1;
  }
  more(entries, i, length, 'item');
  return entries;
};

const mapEntries = (state, map, depth) => {
  const entries = [];
  mapForEach(map, (value, key) => {
    if (entries.length < ENTRIES_MAX && state.left > 0) entries[entries.length] = `${formatValue(state, key, depth + 1)} => ${formatValue(state, value, depth + 1)}`;
  });
  more(entries, entries.length, mapSize(map), 'item');
  return entries;
};
const setEntries = (state, set, depth) => {
  const entries = [];
  setForEach(set, (value) => {
    if (entries.length < ENTRIES_MAX && state.left > 0) entries[entries.length] = formatValue(state, value, depth + 1);
  });
  more(entries, entries.length, setSize(set), 'item');
  return entries;
};
const typedEntries = (state, typed) => {
  const entries = [];
  const length = typedLength(typed);
  for (let i = 0; i < length && i < ENTRIES_MAX; i++) {
    entries[i] = primitiveText(typed[i]);
    state.left -= entries[i].length;
  }
  more(entries, entries.length, length, 'item');
  return entries;
};

const formatError = (state, error, depth) => {
  const stack = stackOf(error);
  let text = stack === '' ? errorHead(error) : `${errorHead(error)}\n${stack}`;
  if (stack === '' && depth > 0) text = `[${text}]`;
  const cause = getOwnPropertyDescriptor(error, 'cause');
  const entries = propertyEntries(state, error, depth, 'error');
  const errors = getOwnPropertyDescriptor(error, 'errors');
  if (cause !== undefined) entries[entries.length] = `[cause]: ${cause.get ? '[Getter]' : formatValue(state, cause.value, depth + 1)}`;
  if (errors !== undefined && !errors.enumerable && isArray(errors.value)) entries[entries.length] = `[errors]: ${formatValue(state, errors.value, depth + 1)}`;
  state.left -= text.length;
  return entries.length === 0 ? text : `${text} {\n  ${replaceAll(join(entries, ',\n'), '\n', '\n  ')}\n}`;
};

const formatPromise = (state, promise, depth) => {
  const status = native.promiseState(promise);
  if (status === 0) return 'Promise {<pending>}';
  const text = formatValue(state, native.promiseResult(promise), depth + 1);
  return status === 1 ? `Promise {${text}}` : `Promise {<rejected> ${text}}`;
};

const formatObject = (state, object, depth) => {
  const what = kindOf(object);
  if (what === 'proxy') return '[Proxy]';
  const name = constructorName(object);
  if (what === 'error') return formatError(state, object, depth);
  if (depth > state.depth) return what === 'array' ? '[Array]' : `[${name ?? 'Object: null prototype'}]`;
  const own = () => propertyEntries(state, object, depth, what);
  const label = (plain, size) => (name === plain ? plain : `${name ?? '[null prototype]'}${name === null ? ` ${plain}` : ''}`) + (size === undefined ? '' : `(${size})`);
  switch (what) {
    case 'array':
      return layout(name === 'Array' ? '[' : `${label('Array', object.length)} [`, append(arrayEntries(state, object, depth), own()), ']', object.length > 6);
    case 'arguments': return layout('[Arguments] [', arrayEntries(state, object, depth), ']', true);
    case 'map': return layout(`${label('Map', mapSize(object))} {`, append(mapEntries(state, object, depth), own()), '}', false);
    case 'set': return layout(`${label('Set', setSize(object))} {`, append(setEntries(state, object, depth), own()), '}', false);
    case 'typed': return layout(`${label(typedTag(object), typedLength(object))} [`, append(typedEntries(state, object), own()), ']', true);
    case 'buffer': return layout(`${label('ArrayBuffer')} {`, append([`byteLength: ${bufferLength(object)}`], own()), '}', false);
    case 'view': return layout(`${label('DataView')} {`, append([`byteLength: ${viewLength(object)}`], own()), '}', false);
    case 'promise': return formatPromise(state, object, depth);
    case 'date': return withOwn(dateGetTime(object) === dateGetTime(object) ? dateToISO(object) : 'Invalid Date', own());
    case 'regexp': return withOwn(`/${regexSource(object)}/${regexFlags(object)}`, own());
    case 'number': return withOwn(`[Number: ${primitiveText(numberValue(object))}]`, own());
    case 'boolean': return withOwn(`[Boolean: ${booleanValue(object)}]`, own());
    case 'string': return withOwn(`[String: ${quote(stringValue(object))}]`, own());
    case 'weakref': return `WeakRef { ${formatValue(state, weakDeref(object), depth + 1)} }`;
    case 'weakmap': case 'weakset': return `${name} { <items unknown> }`;
    case 'generator': return 'Object [Generator] {}';
    case 'asyncgenerator': return 'Object [AsyncGenerator] {}';
  }
  const entries = own();
  const tag = dataProperty(object, SymbolCtor.toStringTag);
  const tagged = typeof tag === 'string' && tag !== '' && tag !== name ? `${name ?? '[Object: null prototype]'} [${tag}] ` : '';
  const head = tagged !== '' ? tagged : name === 'Object' ? '' : name === null ? '[Object: null prototype] ' : `${name} `;
  return layout(`${head}{`, entries, '}', false);
};
const withOwn = (text, entries) => (entries.length === 0 ? text : layout(`${text} {`, entries, '}', false));
