// display: renderings besides the console, one media type each.
const DISPLAY = 2;
const displayMethod = SymbolCtor.for('Jupyter.display');
const pngSignature = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const jpegSignature = [0xff, 0xd8, 0xff];
const TABLE_TYPE = 'application/vnd.dataresource+json';
// Of a value that offers several media types, the first of these is shown.
const preferredTypes = ['text/html', 'image/svg+xml', 'image/png', 'image/jpeg', TABLE_TYPE, 'text/markdown', 'application/json', 'text/plain'];
const shortTypes = { __proto__: null, html: 'text/html', svg: 'image/svg+xml', png: 'image/png', jpeg: 'image/jpeg', markdown: 'text/markdown', text: 'text/plain' };

const show = (mimeType, data) => {
  native.emit(DISPLAY, `{"mimeType":${stringify(wellFormed(mimeType))},"data":${stringify(wellFormed(data))}}`);
};
const base64Digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const base64 = (bytes) => {
  const length = typedLength(bytes);
  let text = '';
  for (let i = 0; i < length; i += 3) {
    const left = length - i;
    const word = (bytes[i] << 16) | ((left > 1 ? bytes[i + 1] : 0) << 8) | (left > 2 ? bytes[i + 2] : 0);
    text += base64Digits[word >> 18] + base64Digits[(word >> 12) & 63] + (left > 1 ? base64Digits[(word >> 6) & 63] : '=') + (left > 2 ? base64Digits[word & 63] : '=');
  }
  return text;
};
const bytesOf = (value) => {
  const what = typeof value === 'object' && value !== null ? kindOf(value) : '';
  if (what === 'buffer') return new Uint8ArrayCtor(value);
  if (what === 'typed') return new Uint8ArrayCtor(typedBuffer(value), typedByteOffset(value), typedByteLength(value));
  if (what === 'view') return new Uint8ArrayCtor(viewBuffer(value), viewOffset(value), viewLength(value));
  return undefined;
};
const begins = (bytes, signature) => {
  for (let i = 0; i < signature.length; i++) if (bytes[i] !== signature[i]) return false;
  return true;
};
// Bytes as they are; a text must be base64 already.
const imageData = (value, signature, name) => {
  if (typeof value === 'string') return value;
  const bytes = bytesOf(value);
  if (bytes === undefined || !begins(bytes, signature)) throw new TypeErrorCtor(`display.${name} needs the bytes of such an image, or their base64 text`);
  return base64(bytes);
};

// A table is a tabular data resource: {schema: {fields: [{name}]}, data: [row, …]}.
const tableResource = (rows, wanted) => {
  const list = isArray(rows) ? rows : typeof rows === 'object' && rows !== null && kindOf(rows) === 'map' ? collectRows(rows) : undefined;
  if (list === undefined) throw new TypeErrorCtor('display.table needs an array of rows');
  const { length } = list;
  if (length > TABLE_ROWS_MAX) throw new RangeErrorCtor(`display.table shows at most ${TABLE_ROWS_MAX} rows, not ${length}`);
  const names = new SetCtor();
  const data = [];
  for (let i = 0; i < length; i++) {
    const row = list[i];
    const plain = typeof row !== 'object' || row === null;
    const shown = create(null);
    const keys = plain ? ['value'] : wanted ?? enumerableNames(row);
    for (let j = 0; j < keys.length; j++) {
      const key = `${keys[j]}`;
      setAdd(names, key);
      const value = plain ? row : row[key];
      const json = valueJson(value);
      shown[key] = value === undefined ? null : json === undefined ? inspect(value, { __proto__: null, depth: 1 }) : parse(json);
    }
    data[i] = shown;
  }
  if (setSize(names) > TABLE_COLUMNS_MAX) throw new RangeErrorCtor(`display.table shows at most ${TABLE_COLUMNS_MAX} columns, not ${setSize(names)}`);
  const fields = [];
  setForEach(names, (name) => { fields[fields.length] = { name }; });
  return jsonText({ schema: { fields }, data });
};
const collectRows = (map) => {
  const rows = [];
  mapForEach(map, (value, key) => { rows[rows.length] = { key, value }; });
  return rows;
};

const showBundle = (offered) => {
  for (let i = 0; i < preferredTypes.length; i++) {
    const data = ownData(offered, preferredTypes[i]);
    if (data === undefined) continue;
    const binary = bytesOf(data);
    return show(preferredTypes[i], typeof data === 'string' ? data : binary !== undefined ? base64(binary) : jsonText(data) ?? 'null');
  }
  throw new TypeErrorCtor('a display method must return an object whose keys are media types');
};
const display = function display(value) {
  if (typeof value === 'string') return show('text/plain', value);
  if (typeof value === 'object' && value !== null && !isProxy(value)) {
    const offers = dataProperty(value, displayMethod);
    if (typeof offers === 'function') return showBundle(apply(offers, value, []));
    const mimeType = ownData(value, 'mimeType');
    const data = ownData(value, 'data');
    if (typeof mimeType === 'string' && typeof data === 'string') return show(mimeType, data);
    const keys = ownKeys(value);
    const type = keys.length === 1 ? shortTypes[keys[0]] : undefined;
    if (type !== undefined && typeof ownData(value, keys[0]) === 'string') return show(type, ownData(value, keys[0]));
  }
  const json = typeof value === 'object' && value !== null ? valueJson(value) : undefined;
  return json === undefined ? show('text/plain', inspect(value)) : show('application/json', json);
};
const displayKinds = {
  text(text) { show('text/plain', `${text}`); },
  html(text) { show('text/html', `${text}`); },
  svg(text) { show('image/svg+xml', `${text}`); },
  markdown(text) { show('text/markdown', `${text}`); },
  json(value) {
    const json = jsonText(value);
    if (json === undefined) throw new TypeErrorCtor('the value of display.json must be JSON');
    show('application/json', json);
  },
  png(bytes) { show('image/png', imageData(bytes, pngSignature, 'png')); },
  jpeg(bytes) { show('image/jpeg', imageData(bytes, jpegSignature, 'jpeg')); },
  table(rows, columns) { show(TABLE_TYPE, tableResource(rows, columns)); },
};
for (const name in displayKinds) method(display, name, displayKinds[name]);
expose('display', display);

// How far a cell has come, for those who watch it.
const PROGRESS = 7;
const NOTE_BYTES_MAX = 1024;
method(hostObject, 'progress', function progress(fraction, note) {
  if (typeof fraction !== 'number') throw new TypeErrorCtor('host.progress needs a fraction, a number from 0 to 1');
  if (!(fraction >= 0 && fraction <= 1)) throw new RangeErrorCtor(`the fraction of host.progress must be from 0 to 1, not ${fraction}`);
  if (note !== undefined && typeof note !== 'string') throw new TypeErrorCtor('the note of host.progress must be a string');
  const text = note === undefined ? '' : wellFormed(note);
  if (text.length > NOTE_BYTES_MAX || bufferLength(native.utf8Encode(text)) > NOTE_BYTES_MAX) throw new RangeErrorCtor(`the note of host.progress may have ${NOTE_BYTES_MAX} bytes`);
  native.emit(PROGRESS, `{"fraction":${fraction},"note":${stringify(text)}}`);
});
