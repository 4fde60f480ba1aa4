// AsyncLocalStorage: its stores are the engine's context of a job, which promises and operations hand on. Hooks see nothing.
const { validateFunction, validateString } = require('web/validators');
const { getContext, setContext } = natives;

const NONE = new Map();
const current = () => getContext() ?? NONE;
const within = (context, work, self, args) => {
  const before = getContext();
  setContext(context);
  try {
    return Reflect.apply(work, self, args);
  } finally {
    setContext(before);
  }
};
class AsyncResource {
  #context = getContext();
  constructor(type) { validateString(type, 'type'); }
  runInAsyncScope(work, self, ...args) { return within(this.#context, work, self, args); }
  emitDestroy() { return this; }
  asyncId() { return 1; }
  triggerAsyncId() { return 0; }
  bind(work, self) {
    validateFunction(work, 'fn');
    const resource = this;
    return function bound(...args) { return resource.runInAsyncScope(work, self ?? this, ...args); };
  }
  static bind(work, type, self) { return new AsyncResource(type ?? (work.name || 'bound-anonymous-fn')).bind(work, self); }
}
class AsyncLocalStorage {
  static bind(work) { return AsyncResource.bind(work); }
  static snapshot() {
    const context = getContext();
    return (work, ...args) => within(context, work, undefined, args);
  }
  #with(store) { return new Map(current()).set(this, store); }
  getStore() { return current().get(this); }
  run(store, work, ...args) { return within(this.#with(store), work, undefined, args); }
  exit(work, ...args) { return this.run(undefined, work, ...args); }
  enterWith(store) { setContext(this.#with(store)); }
  disable() {
    const without = new Map(current());
    without.delete(this);
    setContext(without);
  }
}
const hook = { enable() { return hook; }, disable() { return hook; } };
module.exports = { AsyncLocalStorage, AsyncResource, createHook: () => hook, executionAsyncId: () => 1, triggerAsyncId: () => 0, executionAsyncResource: () => ({}) };
