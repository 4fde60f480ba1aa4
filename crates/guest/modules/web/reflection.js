// Node's `util` binding: what looks into values.
const { classId } = natives;
const types = require('node/util/types');
const isIndex = (key) => typeof key === 'string' && /^(0|[1-9]\d{0,9})$/.test(key) && Number(key) < 2 ** 32 - 1;
const ONLY_ENUMERABLE = 2;
const SKIP_SYMBOLS = 16;
// Held as long as somebody counts on it.
class WeakReference {
  #weak; #held; #count = 0;
  constructor(value) { this.#weak = new WeakRef(value); }
  get() { return this.#weak.deref(); }
  incRef() {
    this.#count += 1;
    this.#held = this.get();
    return this.#count;
  }
  decRef() {
    this.#count -= 1;
    if (this.#count === 0) this.#held = undefined;
    return this.#count;
  }
}
module.exports = {
  WeakReference,
  constants: { ALL_PROPERTIES: 0, ONLY_ENUMERABLE, SKIP_SYMBOLS, kPending: 0, kFulfilled: 1, kRejected: 2 },
  privateSymbols: { untransferable_object_private_symbol: Symbol('untransferable'), arrow_message_private_symbol: Symbol('arrow'), decorated_private_symbol: Symbol('decorated') },
  getOwnNonIndexProperties: (object, filter) => Reflect.ownKeys(object).filter((key) => !isIndex(key) && ((filter & SKIP_SYMBOLS) === 0 || typeof key !== 'symbol') && ((filter & ONLY_ENUMERABLE) === 0 || Object.prototype.propertyIsEnumerable.call(object, key))),
  getPromiseDetails: (promise) => {
    const state = natives.promiseState(promise);
    return state === 0 ? [0] : [state, natives.promiseResult(promise)];
  },
  getProxyDetails: (value, both = true) => {
    if (!types.isProxy(value)) return undefined;
    const target = natives.proxyTarget(value);
    return both ? [target, natives.proxyHandler(value)] : target;
  },
  previewEntries: (value, isIterator) => {
    if (types.isMap(value) || types.isSet(value)) return [...value].flat();
    const { entries, keyed } = natives.iteratorEntries(value);
    return isIterator ? [entries, keyed] : entries;
  },
  getConstructorName: (object) => {
    for (let at = object; at !== null; at = Object.getPrototypeOf(at)) {
      const found = Object.getOwnPropertyDescriptor(at, 'constructor');
      if (typeof found?.value === 'function' && found.value.name !== '') return found.value.name;
    }
    return '';
  },
  getExternalValue: () => 0n,
  getCallSite: () => [],
  isInsideNodeModules: () => false,
  isArrayBufferDetached: (buffer) => buffer.detached === true,
  isConstructor: (value) => {
    try {
      Reflect.construct(Object, [], value);
      return true;
    } catch {
      return false;
    }
  },
  guessHandleType: () => 'PIPE',
  sleep: () => {},
  toUSVString: (text) => text.toWellFormed(),
  defineLazyProperties: () => {},
  shouldAbortOnUncaughtToggle: [0],
};
void classId;
