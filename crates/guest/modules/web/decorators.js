// What a class with decorators of the TC39 proposal calls, as the compiler has rewritten it (crates/cells/src/decorate.rs): `decorated(name, […])` takes the
// class's own decorators and then a function that makes the class, whose members tell theirs by `add` while their names are evaluated.
const taken = (value) => {
  if (value !== undefined && typeof value !== 'function') throw new TypeError('Function expected');
  return value;
};
const run = (functions, self) => { for (let at = 0; at < functions.length; at++) functions[at].call(self); };
const FIRST = ['method', 'getter', 'setter', 'accessor'];
const PARTS = { __proto__: null, method: 'value', getter: 'get', setter: 'set' };
const propertyKey = (value) => Reflect.ownKeys({ [value]: undefined })[0];
const accessOf = (kind, key) => {
  const has = { has: (object) => key in object };
  const get = kind === 'setter' ? {} : { get: (object) => object[key] };
  return { ...has, ...get, ...(kind === 'method' || kind === 'getter' ? {} : { set: (object, value) => { object[key] = value; } }) };
};

class Work {
  #name; #decorators; #members = []; #onClass = []; #onInstance = []; #ofClass = []; #keys;
  constructor(name, decorators) {
    this.#name = name;
    this.#decorators = decorators;
  }
  // A member, before its name is evaluated; answers the name of a method that stands for it until the class is made. `own` has the functions of a private one.
  add(kind, isStatic, name, access, decorators, own) {
    const mark = Symbol(kind);
    this.#members.push({ kind, isStatic, isPrivate: access !== null, key: name, access, decorators, own, mark, initializers: [], after: [], made: undefined });
    return mark;
  }
  key(at, ...given) {
    const member = this.#members[at];
    if (given.length > 0) member.key = propertyKey(given[0]);
    return member.key;
  }
  // Before anything static of the class is evaluated: decorates members, then the class, and answers what it comes to.
  apply(made) {
    for (const { mark } of this.#members) delete made[mark];
    const named = Object.getOwnPropertyDescriptor(made, 'name');
    if (this.#name !== undefined && (named === undefined || named.value === '')) Object.defineProperty(made, 'name', { value: this.#name, writable: false, enumerable: false, configurable: true });
    const metadata = Object.create(Object.getPrototypeOf(made)?.[Symbol.metadata] ?? null);
    const late = (member) => !FIRST.includes(member.kind);
    for (const fields of [false, true]) {
      for (const isStatic of [true, false]) {
        for (const member of this.#members) if (late(member) === fields && member.isStatic === isStatic) this.#decorate(made, member, metadata);
      }
    }
    const kept = { value: metadata, writable: true, enumerable: true, configurable: true };
    // Before a decorator may seal the class.
    Object.defineProperty(made, Symbol.metadata, kept);
    this.result = this.#decorateClass(made, metadata);
    if (this.result !== made) {
      Reflect.defineProperty(this.result, Symbol.metadata, kept);
      this.#keys = new Set(Reflect.ownKeys(made));
    }
    run(this.#onClass, this.result);
    return this.result;
  }
  #decorate(made, member, metadata) {
    const { kind, isStatic, isPrivate, key, decorators, own } = member;
    const target = isStatic ? made : made.prototype;
    if (own !== null) Object.setPrototypeOf(own, Object.getPrototypeOf(target));
    const descriptor = kind === 'field' ? undefined : own === null ? Object.getOwnPropertyDescriptor(target, key) : Object.getOwnPropertyDescriptor(own, key);
    const later = kind === 'field' || kind === 'accessor' ? member.after : isStatic ? this.#onClass : this.#onInstance;
    for (const decorator of [...decorators].reverse()) {
      let done = false;
      const context = { kind, name: key, static: isStatic, private: isPrivate, access: isPrivate ? { ...member.access } : accessOf(kind, key), metadata };
      context.addInitializer = (initializer) => {
        if (done) throw new TypeError('Cannot add initializers after decoration has completed');
        later.push(taken(initializer ?? null));
      };
      const given = kind === 'field' ? undefined : kind === 'accessor' ? { get: descriptor.get, set: descriptor.set } : descriptor[PARTS[kind]];
      const result = decorator(given, context);
      done = true;
      if (kind === 'accessor') {
        if (result === undefined) continue;
        if (result === null || typeof result !== 'object') throw new TypeError('Object expected');
        descriptor.get = taken(result.get) ?? descriptor.get;
        descriptor.set = taken(result.set) ?? descriptor.set;
        const init = taken(result.init);
        if (init !== undefined) member.initializers.unshift(init);
      } else if (taken(result) !== undefined) {
        if (kind === 'field') member.initializers.unshift(result);
        else descriptor[PARTS[kind]] = result;
      }
    }
    member.made = descriptor;
    if (descriptor !== undefined && own === null) Object.defineProperty(target, key, descriptor);
  }
  #decorateClass(made, metadata) {
    let result = made;
    for (const decorator of [...this.#decorators].reverse()) {
      let done = false;
      const context = { kind: 'class', name: made.name, metadata };
      context.addInitializer = (initializer) => {
        if (done) throw new TypeError('Cannot add initializers after decoration has completed');
        this.#ofClass.push(taken(initializer ?? null));
      };
      result = taken(decorator(result, context)) ?? result;
      done = true;
    }
    return result;
  }
  // What a private member does: `value`, `get` or `set`.
  part(at, name) { return this.#members[at].made[name]; }
  // Before the fields of an instance.
  start(self) { run(this.#onInstance, self); }
  init(at, self, value, ...anonymous) {
    const member = this.#members[at];
    if (anonymous.length > 0 && typeof value === 'function' && (Object.getOwnPropertyDescriptor(value, 'name')?.value ?? '') === '') {
      const { key } = member;
      Object.defineProperty(value, 'name', { value: typeof key === 'symbol' ? (key.description === undefined ? '' : `[${key.description}]`) : key, configurable: true });
    }
    let made = value;
    for (const initializer of member.initializers) made = initializer.call(self, made);
    return made;
  }
  after(at, self) { run(this.#members[at].after, self); }
  // When all that is static is there: what took the class's place has it, too.
  end(made) {
    if (this.#keys !== undefined) {
      for (const key of Reflect.ownKeys(made)) if (!this.#keys.has(key)) Object.defineProperty(this.result, key, Object.getOwnPropertyDescriptor(made, key));
    }
    run(this.#ofClass, this.result);
  }
}
const decorated = (name, decorators) => (evaluate) => {
  for (const decorator of decorators) if (typeof decorator !== 'function') throw new TypeError('A decorator must be a function');
  const work = new Work(name, decorators);
  evaluate(work);
  return work.result;
};
module.exports = { decorated };
