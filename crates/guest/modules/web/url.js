// URL and URLSearchParams of the WHATWG standard; parsing is the engine's (the `url` crate).
const { urlParse, urlSet, formParse, formSerialize, domainToASCII, domainToUnicode } = natives;
const PARTS = ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'];
const INSPECT = Symbol.for('nodejs.util.inspect.custom');
const text = (value) => `${value}`.toWellFormed();
const needs = (count, args) => {
  if (args.length < count) throw Object.assign(new TypeError(count === 1 ? 'The "name" argument must be specified' : 'The "name" and "value" arguments must be specified'), { code: 'ERR_MISSING_ARGS' });
};
const coded = (message, code) => Object.assign(new TypeError(message), { code });
const notThis = (name) => coded(`Value of "this" must be of type ${name}`, 'ERR_INVALID_THIS');
const invalid = (input, base) => Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL', input, ...(base === undefined ? {} : { base }) });

// An iterator's steps, by which it is known.
const steps = new WeakMap();
const stepsOf = (iterator) => {
  const found = typeof iterator === 'object' && iterator !== null ? steps.get(iterator) : undefined;
  if (found === undefined) throw notThis('URLSearchParamsIterator');
  return found;
};
const shownList = (name, parts, options) => {
  const line = `${name} { ${parts.join(', ')} }`;
  const width = options?.breakLength ?? Infinity;
  return line.length <= width || parts.length === 0 ? line : `${name} {\n  ${parts.join(',\n  ')} }`;
};
const shownAs = (value, options) => (options === undefined ? natives.inspect(value) : require('web/inspection').inspect(value, options));
const iteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
const SearchParamsIterator = Object.create(iteratorPrototype, {
  next: { value: function next() { return stepsOf(this).next(); }, writable: true, configurable: true, enumerable: true },
  [INSPECT]: {
    value(depth, options) {
      const { rest } = stepsOf(this);
      if (depth < 0) return '[Object]';
      return shownList('URLSearchParams Iterator', rest().map((it) => shownAs(it, options)), options);
    },
    writable: true, configurable: true,
  },
  [Symbol.toStringTag]: { value: 'URLSearchParams Iterator', configurable: true },
});
// Each step looks at the list anew, as the standard has it.
const iterate = (list, pick) => {
  let at = 0;
  const next = () => (at < list().length ? { value: pick(list()[at++]), done: false } : { value: undefined, done: true });
  const iterator = Object.create(SearchParamsIterator);
  steps.set(iterator, { next, rest: () => list().slice(at).map(pick) });
  return iterator;
};

const adopt = Symbol('adopt');
class URLSearchParams {
  #list = [];
  #changed;
  static #own(value) { if (typeof value !== 'object' || value === null || !(#list in value)) throw notThis('URLSearchParams'); }
  constructor(init = undefined) {
    if (init === undefined || init === null) return;
    if (typeof init === 'object' || typeof init === 'function') {
      const iterator = init[Symbol.iterator];
      if (iterator !== undefined && iterator !== null) {
        if (typeof iterator !== 'function') throw coded('Query pairs must be iterable', 'ERR_ARG_NOT_ITERABLE');
        for (const pair of init) {
          if (pair === null || (typeof pair !== 'object' && typeof pair !== 'function') || typeof pair[Symbol.iterator] !== 'function') throw Object.assign(new TypeError('Each query pair must be an iterable [name, value] tuple'), { code: 'ERR_INVALID_TUPLE' });
          const both = [...pair];
          if (both.length !== 2) throw Object.assign(new TypeError('Each query pair must be an iterable [name, value] tuple'), { code: 'ERR_INVALID_TUPLE' });
          this.#list.push([text(both[0]), text(both[1])]);
        }
      } else {
        const record = new Map();
        for (const key of Reflect.ownKeys(init)) {
          if (Object.getOwnPropertyDescriptor(init, key)?.enumerable) record.set(text(key), text(init[key]));
        }
        this.#list = [...record];
      }
      return;
    }
    this.#read(text(init));
  }
  #read(query) {
    const flat = formParse(query.startsWith('?') ? query.slice(1) : query);
    this.#list = [];
    for (let i = 0; i < flat.length; i += 2) this.#list.push([flat[i], flat[i + 1]]);
  }
  // A URL's own: it reads the query, and hears of changes.
  [adopt](query, changed) {
    this.#changed = changed;
    this.#read(query);
  }
  #touch() { this.#changed?.(this.toString()); }
  get size() { URLSearchParams.#own(this); return this.#list.length; }
  append(name, value) {
    URLSearchParams.#own(this);
    needs(2, arguments);
    this.#list.push([text(name), text(value)]);
    this.#touch();
  }
  delete(name, value = undefined) {
    URLSearchParams.#own(this);
    needs(1, arguments);
    const [wanted, of] = [text(name), value === undefined ? undefined : text(value)];
    this.#list = this.#list.filter(([key, item]) => key !== wanted || (of !== undefined && item !== of));
    this.#touch();
  }
  get(name) {
    URLSearchParams.#own(this);
    needs(1, arguments);
    const wanted = text(name);
    return this.#list.find(([key]) => key === wanted)?.[1] ?? null;
  }
  getAll(name) {
    URLSearchParams.#own(this);
    needs(1, arguments);
    const wanted = text(name);
    return this.#list.filter(([key]) => key === wanted).map(([, value]) => value);
  }
  has(name, value = undefined) {
    URLSearchParams.#own(this);
    needs(1, arguments);
    const [wanted, of] = [text(name), value === undefined ? undefined : text(value)];
    return this.#list.some(([key, item]) => key === wanted && (of === undefined || item === of));
  }
  set(name, value) {
    URLSearchParams.#own(this);
    needs(2, arguments);
    const [wanted, now] = [text(name), text(value)];
    const first = this.#list.find(([key]) => key === wanted);
    if (first === undefined) this.#list.push([wanted, now]);
    else {
      first[1] = now;
      this.#list = this.#list.filter((pair) => pair === first || pair[0] !== wanted);
    }
    this.#touch();
  }
  sort() {
    URLSearchParams.#own(this);
    this.#list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#touch();
  }
  forEach(callback, receiver = undefined) {
    URLSearchParams.#own(this);
    require('web/validators').validateFunction(callback, 'callback');
    for (let i = 0; i < this.#list.length; i++) callback.call(receiver, this.#list[i][1], this.#list[i][0], this);
  }
  entries() { URLSearchParams.#own(this); return iterate(() => this.#list, ([key, value]) => [key, value]); }
  keys() { URLSearchParams.#own(this); return iterate(() => this.#list, ([key]) => key); }
  values() { URLSearchParams.#own(this); return iterate(() => this.#list, ([, value]) => value); }
  toString() { URLSearchParams.#own(this); return formSerialize(this.#list.flat()); }
  [INSPECT](depth, options) {
    URLSearchParams.#own(this);
    if (typeof depth === 'number' && depth < 0) return '[Object]';
    if (this.#list.length === 0) return 'URLSearchParams {}';
    return shownList('URLSearchParams', this.#list.map(([key, value]) => `${shownAs(key, options)} => ${shownAs(value, options)}`), options);
  }
}

class URL {
  #parts;
  #params;
  static #partsOf(value) {
    if (typeof value !== 'object' || value === null || !(#parts in value)) throw notThis('URL');
    return value.#parts;
  }
  static createObjectURL(blob) { return require('web/object-urls').create(blob); }
  static revokeObjectURL(url) {
    if (arguments.length === 0) throw coded('The "url" argument must be specified', 'ERR_MISSING_ARGS');
    require('web/object-urls').revoke(`${url}`);
  }
  constructor(url, base = undefined) {
    if (arguments.length === 0) throw Object.assign(new TypeError('The "url" argument must be specified'), { code: 'ERR_MISSING_ARGS' });
    const [input, from] = [text(url), base === undefined ? undefined : text(base)];
    this.#parts = urlParse(input, from);
    if (this.#parts === undefined) throw invalid(input, from);
  }
  static canParse(url, base = undefined) {
    if (arguments.length === 0) throw coded('The "url" argument must be specified', 'ERR_MISSING_ARGS');
    return urlParse(text(url), base === undefined ? undefined : text(base)) !== undefined;
  }
  static parse(url, base = undefined) { return URL.canParse(url, base) ? new URL(url, base) : null; }
  get searchParams() {
    URL.#partsOf(this);
    if (this.#params === undefined) {
      this.#params = new URLSearchParams();
      this.#follow();
    }
    return this.#params;
  }
  #follow() {
    this.#params?.[adopt](this.search, (query) => { this.#parts = urlSet(this.href, 'search', query) ?? this.#parts; });
  }
  #set(part, value) {
    const changed = urlSet(this.href, part, text(value));
    if (changed === undefined) {
      if (part === 'href') throw invalid(text(value));
      return;
    }
    this.#parts = changed;
    if (part === 'href' || part === 'search') this.#follow();
  }
  toString() { return URL.#partsOf(this)[0]; }
  toJSON() { return URL.#partsOf(this)[0]; }
  [INSPECT](depth) {
    if (depth < 0) return '[URL]';
    const shown = PARTS.map((part) => `  ${part}: ${natives.inspect(this[part])},\n`);
    shown.splice(PARTS.indexOf('search') + 1, 0, `  searchParams: ${this.searchParams[INSPECT]()},\n`);
    return `URL {\n${shown.join('').slice(0, -2)}\n}`;
  }
  static {
    PARTS.forEach((part, at) => {
      const both = { get [part]() { return URL.#partsOf(this)[at]; }, set [part](value) { URL.#partsOf(this); this.#set(part, value); } };
      const { get, set } = Object.getOwnPropertyDescriptor(both, part);
      Object.defineProperty(URL.prototype, part, { get, set: part === 'origin' ? undefined : set, enumerable: true, configurable: true });
    });
  }
}
const enumerable = (prototype, keys) => { for (const key of keys) Object.defineProperty(prototype, key, { enumerable: true }); };
enumerable(URL.prototype, ['searchParams', 'toString', 'toJSON']);
enumerable(URL, ['canParse', 'createObjectURL', 'revokeObjectURL']);
enumerable(URLSearchParams.prototype, ['append', 'delete', 'get', 'getAll', 'has', 'set', 'sort', 'forEach', 'entries', 'keys', 'values', 'toString', 'size']);
Object.defineProperty(URLSearchParams.prototype, Symbol.iterator, { value: URLSearchParams.prototype.entries, writable: true, configurable: true });
Object.defineProperty(URL.prototype, Symbol.toStringTag, { value: 'URL', configurable: true });
Object.defineProperty(URLSearchParams.prototype, Symbol.toStringTag, { value: 'URLSearchParams', configurable: true });

module.exports = { URL, URLSearchParams, domainToASCII: (domain) => domainToASCII(`${domain}`), domainToUnicode: (domain) => domainToUnicode(`${domain}`) };
