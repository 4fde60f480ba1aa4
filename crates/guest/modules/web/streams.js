import * as streams from 'web-streams-polyfill/dist/ponyfill.mjs';

// Text and bytes on either side of a transform.
const pair = (name, about, make) => {
  const made = class {
    #coder;
    #transform;
    constructor(...args) { [this.#coder, this.#transform] = make(...args); }
    get readable() { return this.#transform.readable; }
    get writable() { return this.#transform.writable; }
    static {
      for (const key of ['encoding', ...about]) Object.defineProperty(this.prototype, key, Object.getOwnPropertyDescriptor({ get [key]() { return this.#coder[key]; } }, key));
      for (const key of ['readable', 'writable']) Object.defineProperty(this.prototype, key, { enumerable: true });
      Object.defineProperty(this.prototype, Symbol.toStringTag, { value: name, configurable: true });
    }
  };
  Object.defineProperty(made, 'name', { value: name });
  return made;
};
const TextEncoderStream = pair('TextEncoderStream', [], () => {
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
const TextDecoderStream = pair('TextDecoderStream', ['fatal', 'ignoreBOM'], (label, options) => {
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

// A stream's iterator is one of the language's.
const iterator = Object.getPrototypeOf(new streams.ReadableStream().values());
delete iterator[Symbol.asyncIterator];
Object.setPrototypeOf(iterator, Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}).prototype));

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

const { shows } = require('web/shown');
shows(streams.ReadableStream, 'ReadableStream', (it) => ({ locked: it.locked, state: it._state, supportsBYOB: it._readableStreamController instanceof streams.ReadableByteStreamController }));
shows(streams.WritableStream, 'WritableStream', (it) => ({ locked: it.locked, state: it._state }));
shows(streams.TransformStream, 'TransformStream', (it) => ({ readable: it.readable, writable: it.writable, backpressure: it._backpressure }));

export * from 'web-streams-polyfill/dist/ponyfill.mjs';
export { TextEncoderStream, TextDecoderStream };
