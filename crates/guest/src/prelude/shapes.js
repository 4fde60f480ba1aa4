// What each kind of object shows besides its properties. A shape is a text that says it all, or the brackets, a base before them and a
// function that makes the entries which are no properties.
const remaining = (count, what) => `... ${count} more ${what}${count > 1 ? 's' : ''}`;
const plainShape = (open, base = '', entries = undefined) => ({ __proto__: null, open, close: '}', base, entries, grouping: undefined, length: undefined });
const listShape = (open, entries, length) => ({ __proto__: null, open, close: ']', base: '', entries, grouping: { __proto__: null, numeric: false }, length });
const isNumeric = (value) => typeof value === 'number' || typeof value === 'bigint';

const sparseEntries = (state, array, depth, output, from) => {
  const keys = ownKeys(array);
  let index = from;
  for (let i = 0; i < keys.length && output.length < state.entries; i++) {
    if (!isIndex(keys[i])) break;
    const at = +keys[i];
    if (at < from) continue;
    if (at !== index) {
      output[output.length] = `<${at - index} empty item${at - index > 1 ? 's' : ''}>`;
      index = at;
      if (output.length === state.entries) break;
    }
    output[output.length] = propertyValue(state, array, getOwnPropertyDescriptor(array, at), depth);
    index += 1;
  }
  const left = array.length - index;
  if (left > 0) output[output.length] = output.length === state.entries ? remaining(left, 'item') : `<${left} empty item${left > 1 ? 's' : ''}>`;
  return output;
};
const arrayEntries = (state, array, depth, shape) => {
  const output = [];
  const length = ownData(array, 'length');
  const count = min(state.entries, length);
  let numeric = true;
  for (let i = 0; i < count; i++) {
    const property = getOwnPropertyDescriptor(array, i);
    if (property === undefined) return sparseEntries(state, array, depth, output, i);
    if (state.left <= 0) {
      output[output.length] = remaining(length - i, 'item');
      return output;
    }
    numeric = numeric && isNumeric(property.value);
    output[output.length] = propertyValue(state, array, property, depth);
  }
  if (length > count) {
    numeric = numeric && isNumeric(ownData(array, count));
    output[output.length] = remaining(length - count, 'item');
  }
  shape.grouping.numeric = numeric && !shape.keyed;
  return output;
};
const typedEntries = (state, typed, depth, shape) => {
  const output = [];
  const length = typedLength(typed);
  const count = min(state.entries, length);
  for (let i = 0; i < count; i++) output[i] = spend(state, primitiveText(typed[i]));
  if (length > count) output[count] = remaining(length - count, 'item');
  shape.grouping.numeric = !shape.keyed && !state.hidden;
  shape.length = undefined;
  if (state.hidden) {
    const facts = [['BYTES_PER_ELEMENT', typedByteLength(typed) / max(length, 1)], ['length', length], ['byteLength', typedByteLength(typed)], ['byteOffset', typedByteOffset(typed)], ['buffer', typedBuffer(typed)]];
    state.indent += 2;
    for (let i = 0; i < facts.length; i++) output[output.length] = `[${facts[i][0]}]: ${formatValue(state, facts[i][1], depth, true)}`;
    state.indent -= 2;
  }
  return output;
};

// Keys and values of a map, one after the other; of a set, its values. Begins behind `after[0]`.
const collect = (collection, isMap, after) => {
  const all = [];
  let begun = after === undefined;
  (isMap ? mapForEach : setForEach)(collection, (value, key) => {
    if (begun) {
      all[all.length] = key;
      if (isMap) all[all.length] = value;
    } else if (is(key, after[0])) begun = true;
  });
  return all;
};
const valuesText = (state, values, depth) => {
  const output = [];
  state.indent += 2;
  for (let i = 0; i < values.length && i < state.entries && state.left > 0; i++) output[i] = formatValue(state, values[i], depth, false);
  state.indent -= 2;
  if (values.length > output.length) output[output.length] = remaining(values.length - output.length, 'item');
  return output;
};
const setEntries = (state, set, depth) => valuesText(state, collect(set, false), depth);
const mapEntries = (state, map, depth) => {
  const pairs = collect(map, true);
  const output = [];
  state.indent += 2;
  for (let i = 0; i < pairs.length && output.length < state.entries && state.left > 0; i += 2) {
    output[output.length] = `${formatValue(state, pairs[i], depth, false)} => ${formatValue(state, pairs[i + 1], depth, false)}`;
  }
  state.indent -= 2;
  const left = pairs.length / 2 - output.length;
  if (left > 0) output[output.length] = remaining(left, 'item');
  return output;
};
const pairEntries = (state, pairs, depth) => {
  const output = [];
  state.indent += 2;
  for (let i = 0; i < pairs.length && output.length < state.entries; i += 2) {
    const both = [formatValue(state, pairs[i], depth, false), formatValue(state, pairs[i + 1], depth, false)];
    output[output.length] = layout(state, both, '', '[', ']', depth, { __proto__: null, numeric: true });
  }
  state.indent -= 2;
  const left = pairs.length / 2 - output.length;
  if (left > 0) output[output.length] = remaining(left, 'item');
  return output;
};

// What an iterator of a map or a set has still to give, without asking it: 0 keys, 1 values, 2 both.
const ITERATES_VALUES = 1;
const ITERATES_BOTH = 2;
const iteratorRest = (iterator) => {
  const state = native.iteratorState(iterator);
  const iterates = state[0];
  if (state.length === 1) return { __proto__: null, rest: [], both: iterates === ITERATES_BOTH };
  const isMap = kindOf(state[1]) === 'map';
  const all = collect(state[1], isMap, state.length > 2 ? [state[2]] : undefined);
  const rest = [];
  for (let i = 0; i < all.length; i += isMap ? 2 : 1) {
    const key = all[i];
    const value = isMap ? all[i + 1] : key;
    if (iterates === ITERATES_BOTH) append(rest, [key, value]);
    else rest[rest.length] = iterates === ITERATES_VALUES ? value : key;
  }
  return { __proto__: null, rest, both: iterates === ITERATES_BOTH };
};
const iteratorShape = (iterator, what, tag) => {
  const type = what === 'mapiterator' ? 'Map' : 'Set';
  const { rest, both } = iteratorRest(iterator);
  const label = tag === `${type} Iterator` || tag === '' ? tag : `${tag}] [${type} Iterator`;
  const open = `[${label === '' ? `${type} Iterator` : label}] {`;
  if (!both) return plainShape(open, '', (state, object, depth) => valuesText(state, rest, depth));
  return plainShape(replaceAll(open, ' Iterator] {', ' Entries] {'), '', (state, object, depth) => pairEntries(state, rest, depth));
};

const promiseEntries = (state, promise, depth) => {
  const status = native.promiseState(promise);
  if (status === 0) return ['<pending>'];
  state.indent += 2;
  const text = formatValue(state, native.promiseResult(promise), depth, false);
  state.indent -= 2;
  return [status === 2 ? `<rejected> ${text}` : text];
};
const hexBytes = (state, buffer) => {
  const bytes = new Uint8ArrayCtor(buffer);
  const length = typedLength(bytes);
  let text = '';
  for (let i = 0; i < length && i < state.entries; i++) text += (i === 0 ? '' : ' ') + (bytes[i] < 16 ? '0' : '') + toRadix(bytes[i], 16);
  return length > state.entries ? `${text} ${remaining(length - state.entries, 'byte')}` : text;
};
const bufferEntries = (state, buffer) => {
  const facts = bufferDetached(buffer) ? ['(detached)'] : [`[Uint8Contents]: <${hexBytes(state, buffer)}>`];
  return append(facts, [`byteLength: ${bufferLength(buffer)}`]);
};
const viewEntries = (state, view, depth) => {
  state.indent += 2;
  const buffer = formatValue(state, viewBuffer(view), depth, false);
  state.indent -= 2;
  return [`byteLength: ${viewLength(view)}`, `byteOffset: ${viewOffset(view)}`, `buffer: ${buffer}`];
};
const boxedShape = (object, what, name, tag, keys) => {
  const type = fallbackNames[what];
  const value = what === 'number' ? numberValue(object) : what === 'string' ? stringValue(object) : what === 'boolean' ? booleanValue(object)
    : what === 'bigint' ? bigintValue(object) : symbolValue(object);
  const whose = name === type ? '' : name === null ? ' (null prototype)' : ` (${name})`;
  const base = `[${type}${whose}: ${primitiveText(value)}]${tag !== '' && tag !== name ? ` [${tag}]` : ''}`;
  return keys.length === 0 ? base : plainShape('{', base);
};

const shapeOf = (state, object, what, name, tag, keys, inTyped) => {
  if (typeof object === 'function') {
    const base = functionText(object, name, tag, what);
    return keys.length === 0 ? base : plainShape('{', base);
  }
  if (what === 'object' && name === 'Object' && tag === '') return keys.length === 0 ? '{}' : plainShape('{');
  const prefix = (size) => prefixOf(name, tag, fallbackOf(object, what), size);
  const based = (base) => (keys.length === 0 ? base : plainShape('{', base));
  switch (what) {
    case 'array': {
      const length = ownData(object, 'length');
      const open = name === 'Array' && tag === '' ? '[' : `${prefix(length)}[`;
      if (length === 0 && keys.length === 0 && !state.hidden) return `${open}]`;
      const shape = listShape(open, arrayEntries, undefined);
      shape.keyed = keys.length > 0;
      return shape;
    }
    case 'typed': {
      const length = typedLength(object);
      if (length === 0 && keys.length === 0 && !state.hidden) return `${prefix(0)}[]`;
      const shape = listShape(`${prefix(length)}[`, typedEntries, undefined);
      shape.keyed = keys.length > 0;
      return shape;
    }
    case 'set': return setSize(object) === 0 && keys.length === 0 ? `${prefix(0)}{}` : plainShape(`${prefix(setSize(object))}{`, '', setEntries);
    case 'map': return mapSize(object) === 0 && keys.length === 0 ? `${prefix(0)}{}` : plainShape(`${prefix(mapSize(object))}{`, '', mapEntries);
    case 'mapiterator': case 'setiterator': return iteratorShape(object, what, tag);
    case 'error': return errorShape(state, object, name, tag, keys);
    case 'domexception': {
      const frames = framesOf(object);
      return based(`DOMException [${domName(object)}]: ${domMessage(object)}${frames === '' ? '' : `\n${frames}`}`);
    }
    case 'regexp': return based(`${prefix() === 'RegExp ' ? '' : prefix()}/${regexSource(object)}/${regexFlags(object)}`);
    case 'date': {
      const time = dateGetTime(object);
      return based(`${prefix() === 'Date ' ? '' : prefix()}${time === time ? dateToISO(object) : 'Invalid Date'}`);
    }
    case 'buffer': case 'sharedbuffer': {
      if (inTyped && keys.length === 0) return `${prefix()}{ byteLength: ${bufferLength(object)} }`;
      return plainShape(`${prefix()}{`, '', bufferEntries);
    }
    case 'view': return plainShape(`${prefix()}{`, '', viewEntries);
    case 'promise': return plainShape(`${prefix()}{`, '', promiseEntries);
    case 'weakmap': case 'weakset': return plainShape(`${prefix()}{`, '', () => ['<items unknown>']);
    case 'number': case 'string': case 'boolean': case 'symbol': case 'bigint': return boxedShape(object, what, name, tag, keys);
    case 'arguments': if (name === 'Object') return keys.length === 0 ? '[Arguments] {}' : plainShape('[Arguments] {');
  }
  const open = name === 'Object' && tag === '' ? '{' : `${name === null && tag === 'Module' ? '[Module: null prototype] ' : prefix()}{`;
  return keys.length === 0 ? `${open}}` : plainShape(open);
};
