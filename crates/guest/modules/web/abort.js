// AbortController and AbortSignal of the DOM standard.
import { Event, EventTarget, TRUSTED, getEventAttributeValue, setEventAttributeValue } from 'web/events';

const MADE = Symbol('made here');
class AbortSignal extends EventTarget {
  #reason;
  #aborted = false;
  #dependents = [];
  constructor(made) {
    if (made !== MADE) throw new TypeError('Illegal constructor');
    super();
  }
  get aborted() { return this.#aborted; }
  get reason() { return this.#reason; }
  get onabort() { return getEventAttributeValue(this, 'abort'); }
  set onabort(listener) { setEventAttributeValue(this, 'abort', listener); }
  throwIfAborted() { if (this.#aborted) throw this.#reason; }
  get [Symbol.toStringTag]() { return 'AbortSignal'; }

  static #abort(signal, reason) {
    if (signal.#aborted) return;
    // All of a tree are aborted before a listener of any runs.
    const tree = [signal];
    for (const one of tree) {
      one.#aborted = true;
      one.#reason = reason;
      for (const dependent of one.#dependents) if (!dependent.#aborted && !tree.includes(dependent)) tree.push(dependent);
      one.#dependents = [];
    }
    for (const one of tree) one.dispatchEvent(new Event('abort', TRUSTED));
  }
  static abort(reason = new DOMException('This operation was aborted', 'AbortError')) {
    const signal = new AbortSignal(MADE);
    signal.#aborted = true;
    signal.#reason = reason;
    return signal;
  }
  static timeout(delay) {
    if (typeof delay !== 'number' || !(delay >= 0)) throw new RangeError('AbortSignal.timeout needs milliseconds');
    const signal = new AbortSignal(MADE);
    setTimeout(() => AbortSignal.#abort(signal, new DOMException('The operation was aborted due to timeout', 'TimeoutError')), delay);
    return signal;
  }
  static any(signals) {
    const made = new AbortSignal(MADE);
    const sources = [...signals];
    for (const source of sources) {
      if (!(source instanceof AbortSignal)) throw new TypeError('AbortSignal.any needs signals');
    }
    const done = sources.find((source) => source.#aborted);
    if (done !== undefined) {
      made.#aborted = true;
      made.#reason = done.#reason;
    } else for (const source of sources) source.#dependents.push(made);
    return made;
  }
  // What a controller of its own module may do.
  static [MADE](signal, reason) { AbortSignal.#abort(signal, reason); }
}
const abort = AbortSignal[MADE];
delete AbortSignal[MADE];

class AbortController {
  #signal = new AbortSignal(MADE);
  get signal() { return this.#signal; }
  abort(reason = new DOMException('This operation was aborted', 'AbortError')) { abort(this.#signal, reason); }
  get [Symbol.toStringTag]() { return 'AbortController'; }
}
for (const [made, keys] of [[AbortSignal.prototype, ['aborted', 'reason', 'onabort', 'throwIfAborted']], [AbortController.prototype, ['signal', 'abort']]]) {
  for (const key of keys) Object.defineProperty(made, key, { enumerable: true });
}

const { showsMembers } = require('web/shown');
showsMembers(AbortSignal, ({ aborted }) => ({ aborted }), '[AbortSignal]');
showsMembers(AbortController, ({ signal }) => ({ signal }));

export { AbortController, AbortSignal };
