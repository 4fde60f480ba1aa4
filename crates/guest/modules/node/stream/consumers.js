// All that a stream gives, as one value.
const { Buffer } = require('node/buffer');

const blob = async (stream) => {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return new Blob(parts);
};
const buffer = async (stream) => {
  const parts = [];
  for await (const part of stream) parts.push(typeof part === 'string' ? Buffer.from(part) : Buffer.from(part.buffer ?? part, part.byteOffset, part.byteLength));
  return Buffer.concat(parts);
};
const arrayBuffer = async (stream) => {
  const all = await buffer(stream);
  return all.buffer.slice(all.byteOffset, all.byteOffset + all.byteLength);
};
const text = async (stream) => {
  const decoder = new TextDecoder();
  let all = '';
  for await (const part of stream) all += typeof part === 'string' ? part : decoder.decode(part, { stream: true });
  return all + decoder.decode();
};
const json = async (stream) => JSON.parse(await text(stream));
module.exports = { arrayBuffer, blob, buffer, json, text };
