// Node's own Buffer over the engine's bytes.
const whole = require('lib/buffer');
const { FastBuffer } = require('lib/internal/buffer');

const { Buffer } = whole;
if (Buffer.copyBytesFrom === undefined) {
  Buffer.copyBytesFrom = (view, offset = 0, length = view.length - offset) => {
    const part = view.subarray(offset, offset + length);
    return Buffer.from(new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
  };
}
// Node says which argument is missing.
for (const name of ['atob', 'btoa']) {
  const own = globalThis[name];
  const made = { [name](input) {
    if (arguments.length === 0) throw new (require('web/errors').codes.ERR_MISSING_ARGS)('input');
    return own(`${input}`);
  } }[name];
  Object.defineProperty(globalThis, name, { value: made, writable: true, configurable: true, enumerable: false });
}
// What has been given away has no bytes to look at.
const looked = (name) => {
  const own = whole[name];
  return { [name](input) {
    const buffer = ArrayBuffer.isView(input) ? input.buffer : input;
    if (buffer instanceof ArrayBuffer && buffer.detached) throw Object.assign(new Error('Cannot validate on a detached buffer'), { code: 'ERR_INVALID_STATE' });
    return own(input);
  } }[name];
};
module.exports = {
  ...Object.fromEntries(Object.entries(Object.getOwnPropertyDescriptors(whole)).filter(([, it]) => 'value' in it).map(([name, it]) => [name, it.value])),
  atob: globalThis.atob, btoa: globalThis.btoa,
  transcode: (source, fromEncoding, toEncoding) => Buffer.from(Buffer.from(source).toString(fromEncoding), toEncoding),
  isAscii: looked('isAscii'), isUtf8: looked('isUtf8'),
  get Blob() { return require('web/blob').Blob; },
  get File() { return require('web/blob').File; },
  resolveObjectURL: (url) => require('web/object-urls').resolve(url),
};
Object.defineProperty(module.exports, 'FastBuffer', { value: FastBuffer, enumerable: false });
