// Headers of the Fetch standard. The packages that offer it drop what is invalid instead of refusing it.
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\x01-\x09\x0b\x0c\x0e-\xff]*$/;

const headerName = (name) => {
  const text = `${name}`;
  if (!TOKEN.test(text)) throw new TypeError(`${text} is an invalid header name.`);
  return text.toLowerCase();
};
const headerValue = (value) => {
  const text = `${value}`.replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
  if (!VALUE.test(text)) throw new TypeError(`${text} is an invalid header value.`);
  return text;
};
const iteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
const HeadersIterator = Object.create(iteratorPrototype, {
  next: { value() { return this.step(); }, writable: true, configurable: true, enumerable: true },
  [Symbol.toStringTag]: { value: 'Headers Iterator', configurable: true },
});

class Headers {
  // By the name in small letters: the name as it was written, and the values.
  #values = new Map();
  #immutable = false;
  constructor(init = undefined) {
    if (init === undefined) return;
    if (init === null || (typeof init !== 'object' && typeof init !== 'function')) throw new TypeError('Headers are made of an object or of pairs.');
    if (init[Symbol.iterator] === undefined || init[Symbol.iterator] === null) {
      for (const key of Reflect.ownKeys(init)) {
        if (Object.getOwnPropertyDescriptor(init, key)?.enumerable) this.append(key, init[key]);
      }
      return;
    }
    for (const pair of init) {
      const both = [...pair];
      if (both.length !== 2) throw new TypeError('Headers are made of pairs of a name and a value.');
      this.append(both[0], both[1]);
    }
  }
  #change() { if (this.#immutable) throw new TypeError('immutable'); }
  // Of a response that came from the network.
  static freeze(headers) {
    headers.#immutable = true;
    return headers;
  }
  append(name, value) {
    this.#change();
    const [key, text] = [headerName(name), headerValue(value)];
    const before = this.#values.get(key);
    if (before === undefined) this.#values.set(key, [`${name}`, text]);
    else before.push(text);
  }
  delete(name) {
    this.#change();
    this.#values.delete(headerName(name));
  }
  get(name) { return this.#joined(headerName(name)); }
  has(name) { return this.#values.has(headerName(name)); }
  set(name, value) {
    this.#change();
    this.#values.set(headerName(name), [`${name}`, headerValue(value)]);
  }
  getSetCookie() { return this.#values.get('set-cookie')?.slice(1) ?? []; }
  #joined(key) { return this.#values.get(key)?.slice(1).join(', ') ?? null; }
  // Sorted; cookies are the only ones that are never joined.
  #pairs() {
    return [...this.#values.keys()].sort().flatMap((name) => (name === 'set-cookie' ? this.getSetCookie().map((value) => [name, value]) : [[name, this.#joined(name)]]));
  }
  #iterate(pick) {
    let at = 0;
    const step = () => {
      const pairs = this.#pairs();
      return at < pairs.length ? { value: pick(pairs[at++]), done: false } : { value: undefined, done: true };
    };
    return Object.create(HeadersIterator, { step: { value: step } });
  }
  keys() { return this.#iterate(([name]) => name); }
  values() { return this.#iterate(([, value]) => value); }
  entries() { return this.#iterate((pair) => pair); }
  forEach(callback, receiver = undefined) {
    if (typeof callback !== 'function') throw new TypeError('forEach needs a function');
    for (const [name, value] of this.#pairs()) callback.call(receiver, value, name, this);
  }
  // As they came, each name as it was first written.
  [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) {
    return `Headers ${inspect(Object.fromEntries([...this.#values].map(([key, [name]]) => [name, this.#joined(key)])), { ...options, depth: options.depth ?? depth })}`;
  }
}
Object.defineProperty(Headers.prototype, Symbol.for('nodejs.util.inspect.custom'), { enumerable: false });
for (const key of ['append', 'delete', 'get', 'has', 'set', 'getSetCookie', 'keys', 'values', 'entries', 'forEach']) Object.defineProperty(Headers.prototype, key, { enumerable: true });
Object.defineProperty(Headers.prototype, Symbol.iterator, { value: Headers.prototype.entries, writable: true, configurable: true });
Object.defineProperty(Headers.prototype, Symbol.toStringTag, { value: 'Headers', configurable: true });
const { freeze } = Headers;
delete Headers.freeze;

module.exports = { Headers, freeze };
