// callService: what becomes of a body that is no JSON, and of an answer that is bytes. Bytes travel as `{$bytes, type}`; those of a large file stay
// outside the heap, and a reference stands for what the file holds now.
const { callTool, told } = natives;

const OCTETS = 'application/octet-stream';
const REFERENCE_DIGITS = 32;
const FORMS = new Set(['json', 'text', 'bytes', 'reference']);

const bytesValue = (bytes, type) => ({ value: { $bytes: bytes.toBase64(), type: type || OCTETS } });
// What is not JSON has a prototype of its own; none of the modules that know those is loaded for what is.
const isJson = (body) => {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return true;
  const prototype = Object.getPrototypeOf(body);
  return prototype === Object.prototype || prototype === null;
};
const isFile = (body) => typeof body === 'object' && body !== null && typeof body.$file === 'string';

const fileBody = ({ $file: path, type }) => {
  const { fs, core } = natives.loadModule('web/volume');
  if (!fs.statSync(path).isFile()) throw new TypeError(`${path} is no file`);
  const node = core.getResolvedLinkOrThrow(path, 'open').getNode();
  if (node.outside === undefined) return bytesValue(new Uint8Array(node.getBuffer()), type);
  const id = `ref_${new Uint8Array(natives.entropy(REFERENCE_DIGITS / 2)).toHex()}.bin`;
  told(natives.blobCopy(node.outside, id));
  return { value: { $ref: { id, bytes: node.size, mimeType: type || OCTETS } }, release: () => told(natives.blobRemove(id)) };
};
const webBody = async (body) => {
  const { bytes, stream, type } = natives.loadModule('web/body').extract(body);
  return bytesValue(bytes ?? await natives.loadModule('web/body').collect(stream), type);
};

const send = (service, request, response, body) => {
  const args = { __proto__: null, ...request, service };
  if (body !== undefined) args.body = body;
  // Who says how to read the answer has it in the heap.
  const options = response === undefined ? undefined : { reference: response === 'reference' };
  const answer = callTool('callService', args, options);
  return response === 'bytes' ? answer.then(({ $bytes }) => Uint8Array.fromBase64($bytes)) : answer;
};

module.exports = {
  callService(service, request) {
    const { body, response } = request ?? {};
    if (response !== undefined && !FORMS.has(response)) throw new TypeError(`response: write one of ${[...FORMS].join(', ')}`);
    if (isFile(body)) {
      const { value, release } = fileBody(body);
      const answer = send(service, request, response, value);
      return release === undefined ? answer : answer.finally(release);
    }
    if (isJson(body) || !natives.loadModule('web/body').isBody(body)) return send(service, request, response);
    return webBody(body).then(({ value }) => send(service, request, response, value));
  },
};
