// Contents outside the heap, by name: `host.ctx`. Large files of node/fs lie there too, under names that no context has.
const CONTEXT = 'ctx:';
const CHARACTER_BYTES_MAX = 4;
// An answer that is an object tells why there is none.
const told = (answer) => {
  if (typeof answer !== 'object' || isArray(answer)) return answer;
  const error = errorOf(answer.name, answer.message);
  method(error, 'code', answer.name);
  throw error;
};
const contextKey = (name) => {
  if (typeof name !== 'string' || name === '') throw new TypeErrorCtor('the name of a context must be a string that is not empty');
  return CONTEXT + wellFormed(name);
};
const writeContext = (name, value, append) => {
  const key = contextKey(name);
  if (typeof value === 'string') {
    told(native.blobWriteText(key, append, wellFormed(value)));
    return;
  }
  const { buffer, offset, length } = byteRange(value);
  told(native.blobWrite(key, append, buffer, offset, length));
};
const statContext = (key) => {
  const stat = told(native.blobStat(key));
  return stat < 0 ? undefined : { __proto__: null, size: floor(stat / 2), isText: stat % 2 === 1 };
};
const readContext = (key, from, bytes) => {
  const all = new Uint8ArrayCtor(bytes);
  const read = told(native.blobRead(key, from, typedBuffer(all), 0, bytes));
  if (read !== bytes) throw errorOf('SnapshotCorrupt', `${bytes - read} bytes are missing`);
  return all;
};
const contextPart = (key, stat, from, to) => {
  const bytes = readContext(key, from, max(to - from, 0));
  return stat.isText ? native.utf8Decode(typedBuffer(bytes), 0, typedLength(bytes), false) : bytes;
};
// Where the first character that begins at `at` or behind it begins: slices that meet there lose none and cut none.
const characterAt = (key, at, size) => {
  const few = readContext(key, at, min(CHARACTER_BYTES_MAX, size - at));
  let begins = 0;
  while (begins < typedLength(few) && (few[begins] & 0xc0) === 0x80) begins += 1;
  return at + begins;
};
const sliceIndex = (value, size, otherwise) => {
  const index = value === undefined ? otherwise : trunc(+value) || 0;
  return index < 0 ? max(size + index, 0) : min(index, size);
};

const context = {};
method(context, 'put', function put(name, value) { writeContext(name, value, false); });
method(context, 'append', function append(name, value) { writeContext(name, value, true); });
method(context, 'get', function get(name) {
  const key = contextKey(name);
  const stat = statContext(key);
  return stat === undefined ? undefined : contextPart(key, stat, 0, stat.size);
});
const sliceOf = (key, start, end) => {
  const stat = statContext(key);
  if (stat === undefined) return undefined;
  let from = sliceIndex(start, stat.size, 0);
  let to = sliceIndex(end, stat.size, stat.size);
  if (stat.isText) {
    from = characterAt(key, from, stat.size);
    to = characterAt(key, to, stat.size);
  }
  return contextPart(key, stat, from, to);
};
method(context, 'slice', function sliceContext(name, start, end) { return sliceOf(contextKey(name), start, end); });
method(context, 'size', function size(name) { return statContext(contextKey(name))?.size; });
method(context, 'delete', function deleteContext(name) { return told(native.blobRemove(contextKey(name))) === 1; });
method(context, 'list', function list() {
  const found = told(native.blobList(CONTEXT));
  const names = [];
  for (let i = 0; i < found.length; i++) names[i] = { name: slice(found[i][0], CONTEXT.length), size: found[i][1] };
  return names;
});
const hostObject = {};
method(hostObject, 'ctx', context);
expose('host', hostObject);
