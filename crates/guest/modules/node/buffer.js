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
module.exports = {
  ...Object.fromEntries(Object.entries(Object.getOwnPropertyDescriptors(whole)).filter(([, it]) => 'value' in it).map(([name, it]) => [name, it.value])),
  atob: globalThis.atob, btoa: globalThis.btoa,
  transcode: (source, fromEncoding, toEncoding) => Buffer.from(Buffer.from(source).toString(fromEncoding), toEncoding),
  get Blob() { return require('web/blob').Blob; },
  get File() { return require('web/blob').File; },
  resolveObjectURL: (url) => require('web/object-urls').resolve(url),
};
Object.defineProperty(module.exports, 'FastBuffer', { value: FastBuffer, enumerable: false });
