import Blob from 'fetch-blob';
import File from 'fetch-blob/file.js';

const { get } = Object.getOwnPropertyDescriptor(Blob.prototype, 'type');
Object.defineProperty(Blob.prototype, 'type', { get() { return get.call(this).toLowerCase(); } });

Object.defineProperty(Blob.prototype, 'bytes', { async value() { return new Uint8Array(await this.arrayBuffer()); }, writable: true, enumerable: true, configurable: true });
for (const name of ['name', 'lastModified', 'webkitRelativePath']) {
  const { get } = Object.getOwnPropertyDescriptor(File.prototype, name) ?? {};
  if (get !== undefined) Object.defineProperty(File.prototype, name, { enumerable: true });
}
const { shows } = require('web/shown');
shows(Blob, 'Blob', ['size', 'type']);
shows(File, 'File', ['size', 'type', 'name', 'lastModified']);

export { Blob, File };
