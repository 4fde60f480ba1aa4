import Blob from 'fetch-blob';
import File from 'fetch-blob/file.js';

const { get } = Object.getOwnPropertyDescriptor(Blob.prototype, 'type');
Object.defineProperty(Blob.prototype, 'type', { get() { return get.call(this).toLowerCase(); } });

export { Blob, File };
