import * as streams from 'web-streams-polyfill/dist/ponyfill.mjs';

// Text and bytes on either side of a transform.
const pair = (name, make) => {
  const made = class {
    #coder;
    #transform;
    constructor(...args) { [this.#coder, this.#transform] = make(...args); }
    get encoding() { return this.#coder.encoding; }
    get readable() { return this.#transform.readable; }
    get writable() { return this.#transform.writable; }
    get [Symbol.toStringTag]() { return name; }
  };
  Object.defineProperty(made, 'name', { value: name });
  return made;
};
const TextEncoderStream = pair('TextEncoderStream', () => {
  const encoder = new TextEncoder();
  let high = '';
  return [encoder, new streams.TransformStream({
    transform(chunk, controller) {
      let text = high + String(chunk);
      high = /[\ud800-\udbff]$/.test(text) ? text.slice(-1) : '';
      if (high !== '') text = text.slice(0, -1);
      if (text !== '') controller.enqueue(encoder.encode(text));
    },
    flush(controller) { if (high !== '') controller.enqueue(encoder.encode(high)); },
  })];
});
const TextDecoderStream = pair('TextDecoderStream', (label, options) => {
  const decoder = new TextDecoder(label, options);
  return [decoder, new streams.TransformStream({
    transform(chunk, controller) {
      const text = decoder.decode(chunk, { stream: true });
      if (text !== '') controller.enqueue(text);
    },
    flush(controller) {
      const text = decoder.decode();
      if (text !== '') controller.enqueue(text);
    },
  })];
});

// Node's streams ask these of one of the web, by symbols: when it is closed, and how to make it fail.
const settled = (stream) => {
  const { promise, resolve, reject } = Promise.withResolvers();
  promise.catch(() => {});
  const settle = () => {
    if (stream._state === 'closed') resolve();
    // What it failed with is set a moment later.
    else if (stream._state === 'errored') queueMicrotask(() => reject(stream._storedError));
  };
  settle();
  return { promise, settle };
};
const ends = new WeakMap();
for (const [made, controller] of [[streams.ReadableStream, '_readableStreamController'], [streams.WritableStream, '_writableStreamController']]) {
  Object.defineProperties(made.prototype, {
    [Symbol.for('nodejs.webstream.isClosedPromise')]: {
      get() {
        if (!ends.has(this)) {
          const end = settled(this);
          ends.set(this, end);
          Object.defineProperty(this, '_settle', { value: end.settle });
        }
        return ends.get(this);
      },
      configurable: true,
    },
    [Symbol.for('nodejs.webstream.controllerErrorFunction')]: { get() { return (error) => this[controller].error(error); }, configurable: true },
  });
}

export * from 'web-streams-polyfill/dist/ponyfill.mjs';
export { TextEncoderStream, TextDecoderStream };
