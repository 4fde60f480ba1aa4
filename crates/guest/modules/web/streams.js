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

export * from 'web-streams-polyfill/dist/ponyfill.mjs';
export { TextEncoderStream, TextDecoderStream };
