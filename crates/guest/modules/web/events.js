import { Event, EventTarget, TRUSTED, adopt, getEventAttributeValue, setErrorHandler, setEventAttributeValue, setWarningHandler } from 'event-target-shim';

// What a listener throws is nobody's answer: the session reports it as uncaught.
setErrorHandler(({ error }) => queueMicrotask(() => { throw error; }));
setWarningHandler(() => {});

class CustomEvent extends Event {
  #detail;
  constructor(type, init) {
    super(type, init);
    this.#detail = init?.detail ?? null;
  }
  get detail() { return this.#detail; }
}
for (const made of [Event, EventTarget, CustomEvent]) {
  Object.defineProperty(made.prototype, Symbol.toStringTag, { value: made.name, configurable: true });
}

export { Event, EventTarget, CustomEvent, TRUSTED, adopt, getEventAttributeValue, setEventAttributeValue };
