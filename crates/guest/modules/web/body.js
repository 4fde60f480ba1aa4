// The body of a Request or a Response: what it is made of, and the ways to read it.
const { ReadableStream } = require('web/streams');
const { Blob } = require('web/blob');
const { FormData, formDataToBlob } = require('web/form');
const { URLSearchParams } = require('web/url');

// Whether a value is a body by itself, and not by its text.
const isBody = (value) => [ReadableStream, FormData, Blob, URLSearchParams, ArrayBuffer].some((it) => value instanceof it) || ArrayBuffer.isView(value);
// Bytes and type of what may become a body; a stream stays one.
const extract = (value) => {
  if (value === null || value === undefined) return {};
  if (value instanceof ReadableStream) {
    if (value.locked || value._disturbed) throw new TypeError('Response body object should not be disturbed or locked');
    return { stream: value };
  }
  if (value instanceof FormData) return extract(formDataToBlob(value));
  if (value instanceof Blob) return { stream: value.stream(), type: value.type };
  if (value instanceof URLSearchParams) return { bytes: new TextEncoder().encode(value.toString()), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
  if (value instanceof ArrayBuffer) return { bytes: new Uint8Array(value.slice(0)) };
  if (ArrayBuffer.isView(value)) return { bytes: new Uint8Array(value.buffer, value.byteOffset, value.byteLength).slice() };
  return { bytes: new TextEncoder().encode(`${value}`), type: 'text/plain;charset=UTF-8' };
};
const collect = async (stream) => {
  const chunks = [];
  const reader = stream.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    if (!(next.value instanceof Uint8Array)) throw new TypeError('Received non-Uint8Array chunk');
    chunks.push(next.value);
  }
  const all = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0));
  chunks.reduce((at, chunk) => (all.set(chunk, at), at + chunk.byteLength), 0);
  return all;
};
const withoutMark = (bytes) => new TextDecoder().decode(bytes);

class Body {
  #stream = null;
  #bytes;
  #used = false;
  constructor({ bytes, stream = null }) {
    this.#bytes = bytes;
    this.#stream = stream;
  }
  get body() {
    if (this.#stream === null && this.#bytes !== undefined) {
      const bytes = this.#bytes;
      this.#bytes = undefined;
      this.#stream = new ReadableStream({
        type: 'bytes',
        pull(controller) {
          if (bytes.byteLength > 0) controller.enqueue(bytes.slice());
          controller.close();
          controller.byobRequest?.respond(0);
        },
      });
    }
    return this.#stream;
  }
  get bodyUsed() { return this.#used || (this.#stream !== null && this.#stream._disturbed); }
  async #take() {
    if (this.bodyUsed || this.#stream?.locked) throw new TypeError('Body is unusable: Body has already been read');
    if (this.#stream !== null) return collect(this.#stream);
    if (this.#bytes === undefined) return new Uint8Array(0);
    this.#used = true;
    return this.#bytes.slice();
  }
  async arrayBuffer() { return (await this.#take()).buffer; }
  async bytes() { return this.#take(); }
  async text() { return withoutMark(await this.#take()); }
  async json() { return JSON.parse(withoutMark(await this.#take())); }
  async blob() {
    const bytes = await this.#take();
    return new Blob([bytes], { type: this.headers.get('content-type') ?? '' });
  }
  async formData() {
    const type = this.headers.get('content-type') ?? '';
    if (/^multipart\/form-data\b/i.test(type)) return require('web/multipart').readForm(await this.#take(), type);
    if (!/^application\/x-www-form-urlencoded\b/i.test(type)) throw new TypeError('Content-Type was not one of "multipart/form-data" or "application/x-www-form-urlencoded".');
    const form = new FormData();
    for (const [name, value] of new URLSearchParams(new TextDecoder('utf-8', { ignoreBOM: true }).decode(await this.#take()))) form.append(name, value);
    return form;
  }
  // Another body instead of the one that it was made with.
  static refill(body, { bytes, stream = null }) {
    body.#bytes = bytes;
    body.#stream = stream;
  }
  // The other half of a clone.
  static split(body) {
    if (body.bodyUsed || body.#stream?.locked) throw new TypeError('Body cannot be cloned: it has been read');
    if (body.#stream === null) return { bytes: body.#bytes };
    const [mine, other] = body.#stream.tee();
    body.#stream = mine;
    return { stream: other };
  }
}
for (const key of ['body', 'bodyUsed', 'arrayBuffer', 'text', 'json', 'blob', 'formData']) Object.defineProperty(Body.prototype, key, { enumerable: true });
const { split, refill } = Body;
delete Body.split;
delete Body.refill;

module.exports = { Body, collect, extract, isBody, refill, split };
