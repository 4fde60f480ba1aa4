// What a session has: its globals and files, as digests to compare, or the globals as a person reads them. Runs as a cell in a throw-away
// copy of the session. It reads descriptors, so no getter, trap or method of the session's values runs. It takes the language as it finds
// it there: a session that has replaced Reflect answers for itself.
(function (ask) {
  'use strict';
  const CHUNK_CHARS = 65536;
  const CHUNK_BYTES = 1 << 20;
  const KEYED_LENGTH_MAX = 10000;
  const CHAIN_MAX = 100;
  const { apply, ownKeys, getOwnPropertyDescriptor, getPrototypeOf, defineProperty } = Reflect;
  const { bind, call, toString } = Function.prototype;
  const uncurry = (method) => apply(bind, call, [method]);
  const { isArray } = Array;
  const { is } = Object;
  const objectPrototype = Object.prototype;
  const hasOwn = uncurry(objectPrototype.hasOwnProperty);
  const sourceOf = uncurry(toString);
  const mapGet = uncurry(Map.prototype.get);
  const mapSet = uncurry(Map.prototype.set);
  const mapForEach = uncurry(Map.prototype.forEach);
  const setForEach = uncurry(Set.prototype.forEach);
  const timeOf = uncurry(Date.prototype.getTime);
  const symbolText = uncurry(Symbol.prototype.toString);
  const boxed = [Number, String, Boolean, BigInt, Symbol].map((maker) => uncurry(maker.prototype.valueOf));
  const getter = (prototype, key) => uncurry(getOwnPropertyDescriptor(prototype, key).get);
  const regexSource = getter(RegExp.prototype, 'source');
  const regexFlags = getter(RegExp.prototype, 'flags');
  const typed = getPrototypeOf(Uint8Array.prototype);
  const [typedBuffer, typedOffset, typedBytes, typedTag] = ['buffer', 'byteOffset', 'byteLength', Symbol.toStringTag].map((key) => getter(typed, key));
  const [viewBuffer, viewOffset, viewBytes] = ['buffer', 'byteOffset', 'byteLength'].map((key) => getter(DataView.prototype, key));
  const bufferBytes = getter(ArrayBuffer.prototype, 'byteLength');
  const Bytes = Uint8Array;
  const MapCtor = Map;
  const global = globalThis;
  const put = (object, key, value) => defineProperty(object, key, { __proto__: null, value, enumerable: true });
  // Before any module is loaded: loading one may settle a global.
  const keys = ownKeys(global);
  const found = new MapCtor();
  for (let i = 0; i < keys.length; i++) mapSet(found, keys[i], getOwnPropertyDescriptor(global, keys[i]));
  const { createHash } = require('node:crypto');
  const { inspect, types } = require('node:util');
  const { isProxy } = types;
  const sum = (data) => createHash('sha256').update(data).digest('hex');
  const sumBytes = (buffer, offset, length) => {
    let state = '';
    for (let at = 0; at < length; at += CHUNK_BYTES) state = sum(state + sum(new Bytes(buffer, offset + at, length - at < CHUNK_BYTES ? length - at : CHUNK_BYTES)));
    return state;
  };
  const kinds = [
    ['map', types.isMap], ['set', types.isSet], ['date', types.isDate], ['regexp', types.isRegExp], ['error', types.isNativeError],
    ['promise', types.isPromise], ['typed', types.isTypedArray], ['buffer', types.isArrayBuffer], ['view', types.isDataView],
    ['boxed', types.isBoxedPrimitive], ['weakmap', types.isWeakMap], ['weakset', types.isWeakSet], ['generator', types.isGeneratorObject],
    ['mapiterator', types.isMapIterator], ['setiterator', types.isSetIterator], ['arguments', types.isArgumentsObject],
  ];
  const kindOf = (object) => {
    if (isArray(object)) return 'array';
    if (getPrototypeOf(object) === objectPrototype && !isArguments(object)) return 'object';
    for (let i = 0; i < kinds.length; i++) if (kinds[i][1](object)) return kinds[i][0];
    return 'object';
  };
  const isArguments = types.isArgumentsObject;
  const text = (value) => `${value.length}:${value}`;
  const accessor = (d) => `a${text(d.get === undefined ? '' : sourceOf(d.get))}${text(d.set === undefined ? '' : sourceOf(d.set))}`;

  let left = ask.nodesMax;
  // Digest of a value: what can be reached from it, in the order in which it is there. Of functions their sources; with `leaf`, nothing below them.
  const digest = (root, builtIn, leaf) => {
    const seen = new MapCtor();
    const frames = [];
    let [state, said, count, nodes, complete] = ['', '', 0, ask.nodesOfOneMax, true];
    const say = (token) => {
      said += token;
      if (said.length >= CHUNK_CHARS) [state, said] = [sum(state + said), ''];
    };
    const maker = (object) => {
      const prototype = getPrototypeOf(object);
      if (prototype === null || isProxy(prototype)) return say('0');
      const made = getOwnPropertyDescriptor(prototype, 'constructor')?.value;
      const name = typeof made === 'function' && !isProxy(made) ? getOwnPropertyDescriptor(made, 'name')?.value : undefined;
      if (typeof name === 'string') return say(`m${text(name)}`);
      say('^');
      return enter(prototype);
    };
    const frame = (object, list, entries) => { frames[frames.length] = { __proto__: null, object, list, entries, at: 0 }; };
    const inside = (object, kind) => {
      const entries = [];
      const add = (value) => { defineProperty(entries, entries.length, { __proto__: null, value, writable: true, enumerable: true, configurable: true }); };
      switch (kind) {
        case 'date': say(`${timeOf(object)};`); break;
        case 'regexp': say(`${regexFlags(object)};${text(regexSource(object))}`); break;
        case 'map': mapForEach(object, (value, key) => { add(key); add(value); }); break;
        case 'set': setForEach(object, add); break;
        case 'boxed': for (let i = 0; i < boxed.length; i++) { try { enter(boxed[i](object)); break; } catch {} } break;
        case 'typed': return say(`${typedTag(object)};${sumBytes(typedBuffer(object), typedOffset(object), typedBytes(object))}`);
        case 'view': return say(sumBytes(viewBuffer(object), viewOffset(object), viewBytes(object)));
        case 'buffer': return say(sumBytes(object, 0, bufferBytes(object)));
        default:
      }
      const listed = kind === 'array' && object.length > KEYED_LENGTH_MAX ? undefined : ownKeys(object);
      frame(object, listed, entries);
    };
    const enter = (value) => {
      switch (typeof value) {
        case 'string': return say(`s${text(value)}`);
        case 'number': return say(`d${is(value, -0) ? '-0' : value};`);
        case 'bigint': return say(`b${value};`);
        case 'symbol': return say(`y${text(symbolText(value))}`);
        case 'object': case 'function': break;
        default: return say(value === undefined ? 'u' : value ? 't' : 'f');
      }
      if (value === null) return say('n');
      if (value === global) return say('g');
      const before = mapGet(seen, value);
      if (before !== undefined) return say(`r${before};`);
      mapSet(seen, value, count++);
      // A built-in is known by its name, but for the one that is asked about.
      const name = leaf && value === root ? undefined : mapGet(builtIn, value);
      if (name !== undefined) return say(`i${text(name)}`);
      if (isProxy(value)) return say('p');
      if (typeof value === 'function') {
        say(`F${text(sourceOf(value))}`);
        if (!leaf) frame(value, ownKeys(value), []);
        return undefined;
      }
      const kind = kindOf(value);
      say(`${kind}(`);
      maker(value);
      return inside(value, kind);
    };
    const property = ({ object, list }, at) => {
      const key = list === undefined ? `${at}` : list[at];
      if (typeof object === 'function' && (key === 'name' || key === 'length' || key === 'arguments' || key === 'caller')) return;
      const d = getOwnPropertyDescriptor(object, key);
      if (d === undefined) return say('h');
      if (list !== undefined && !(isArray(object) && key === `${at}`)) say(typeof key === 'string' ? `k${text(key)}` : `q${text(symbolText(key))}`);
      if (!d.enumerable || !d.configurable) say(`${d.enumerable}${d.configurable}`);
      if (hasOwn(d, 'value')) { if (!d.writable) say('c'); enter(d.value); } else say(accessor(d));
    };
    enter(root);
    while (frames.length > 0) {
      const top = frames[frames.length - 1];
      const { length } = top.list ?? top.object;
      if (top.at >= top.entries.length + length) { say(')'); frames.length -= 1; continue; }
      if (nodes-- <= 0 || left-- <= 0) { complete = false; break; }
      const at = top.at++;
      if (at < top.entries.length) enter(top.entries[at]); else property(top, at - top.entries.length);
    }
    return [sum(state + said), complete];
  };

  const base = ask.base ?? keys;
  const isBase = new MapCtor();
  const builtIn = new MapCtor();
  for (let i = 0; i < base.length; i++) {
    mapSet(isBase, base[i], true);
    const value = mapGet(found, base[i])?.value;
    if (((typeof value === 'object' && value !== null) || typeof value === 'function') && typeof base[i] === 'string') mapSet(builtIn, value, base[i]);
  }
  // What a session calls `fs` is the same when files change: they are told by themselves.
  if (ask.base !== undefined) for (const name of ['fs', 'fs/promises', 'buffer', 'crypto', 'util']) mapSet(builtIn, require(`node:${name}`), `module ${name}`);
  const all = { __proto__: null };
  let partial = false;
  let told = 0;
  const tell = (into, key, d) => {
    if (++told > ask.namesMax) { partial = true; return; }
    const [sha256, complete] = hasOwn(d, 'value') ? digest(d.value, builtIn, mapGet(isBase, key) === true) : [sum(accessor(d)), true];
    put(into, key, { __proto__: null, sha256, complete });
  };

  const show = (names) => {
    for (let i = 0; i < names.length; i++) {
      const d = mapGet(found, names[i]);
      if (d === undefined) continue;
      const [value] = hasOwn(d, 'value') ? [d.value] : [undefined];
      let shown = hasOwn(d, 'value') ? '' : '[Getter]';
      if (shown === '') {
        try {
          shown = inspect(value, { __proto__: null, depth: 2, customInspect: false, maxArrayLength: 20, maxStringLength: ask.previewChars });
        } catch { shown = `[${typeof value}]`; }
      }
      put(all, names[i], shown.length > ask.previewChars ? `${shown.slice(0, ask.previewChars)}…` : shown);
    }
    return all;
  };
  const files = () => {
    const fs = require('node:fs');
    const { Buffer } = require('node:buffer');
    const into = { __proto__: null };
    const folders = ['/'];
    // Piece by piece: a file may be larger than the heap.
    const piece = Buffer.alloc(65536);
    const sumFile = (path) => {
      const hash = createHash('sha256');
      const file = fs.openSync(path, 'r');
      for (let n = 1; n > 0;) {
        n = fs.readSync(file, piece, 0, piece.length, null);
        hash.update(piece.subarray(0, n));
      }
      fs.closeSync(file);
      return hash.digest('hex');
    };
    let count = 0;
    while (folders.length > 0) {
      const folder = folders.pop();
      const names = fs.readdirSync(folder);
      for (let i = 0; i < names.length; i++) {
        const path = `${folder === '/' ? '' : folder}/${names[i]}`;
        const about = fs.lstatSync(path);
        if (about.isDirectory()) { folders[folders.length] = path; continue; }
        if (++count > ask.namesMax) { partial = true; return into; }
        const sha256 = about.isSymbolicLink() ? sum(fs.readlinkSync(path)) : about.isFile() ? sumFile(path) : '';
        put(into, path, { __proto__: null, bytes: about.size, sha256 });
      }
    }
    return into;
  };

  if (ask.show !== undefined) return { __proto__: null, shown: show(ask.show) };
  for (let i = 0; i < keys.length; i++) {
    const d = mapGet(found, keys[i]);
    // The last result is not the session's own, unless a script has made the name its own.
    if (typeof keys[i] === 'string' && !(keys[i] === '_' && !d.enumerable)) tell(all, keys[i], d);
  }
  const settled = { __proto__: null };
  if (ask.base === undefined) {
    // What globals are once something has asked for them: some come with a module, when they are first read.
    const read = (object, key) => { try { return object[key]; } catch { return undefined; } };
    for (let i = 0; i < keys.length; i++) {
      const value = read(global, keys[i]);
      if (typeof value !== 'object' || value === null || value === global || isProxy(value)) continue;
      const inner = ownKeys(value);
      for (let j = 0; j < inner.length; j++) read(value, inner[j]);
    }
    told = 0;
    for (let i = 0; i < keys.length; i++) if (typeof keys[i] === 'string') tell(settled, keys[i], getOwnPropertyDescriptor(global, keys[i]));
  }
  return { __proto__: null, globals: all, settled, files: ask.base === undefined ? { __proto__: null } : files(), partial };
})
