// The volume of a session: nodes and names of memfs in the heap, with the contents of larger files outside of it.
//
// A file of more than SPILL_BYTES keeps its content with the host, under the key `node.outside`, and its entry (name, times, size) in the heap. All
// goes through the few methods of Node that are replaced here, so callbacks, promises, descriptors and streams know nothing of it.
const { Node } = require('@jsonjoy.com/fs-core/lib/Node');
const { Superblock } = require('@jsonjoy.com/fs-core/lib/Superblock');
const { Buffer } = require('node/buffer');

const SPILL_BYTES = 65536;
const PREFIX = 'file:';
const NOTHING = Buffer.alloc(0);
const CODES = { __proto__: null, QuotaExceeded: 'ENOSPC', SizeAdmissionError: 'EFBIG', MemoryLimitError: 'ENOMEM' };

let spilled = 0;
const inHeap = {};
for (const name of ['write', 'read', 'truncate', 'getBuffer', '_setBuf']) inHeap[name] = Node.prototype[name];

// An answer that is an object tells why there is none.
const told = (answer) => {
  if (typeof answer !== 'object' || Array.isArray(answer)) return answer;
  const code = CODES[answer.name] ?? 'EIO';
  const error = new Error(`${code}: ${answer.message}`);
  error.code = code;
  Object.defineProperty(error, 'reason', { value: answer.name });
  throw error;
};
const bytesOf = (view, offset, length) => [view.buffer, view.byteOffset + offset, length];
const put = (node, content, append) => told(natives.blobWrite(node.outside, append, ...bytesOf(content, 0, content.length)));
const fetchInto = (node, target, offset, length, position) => {
  if (length === 0) return 0;
  const read = told(natives.blobRead(node.outside, position, ...bytesOf(target, offset, length)));
  if (read !== length) throw Object.assign(new Error('EIO: a part of the file is missing'), { code: 'EIO' });
  return read;
};
const contentOf = (node) => {
  const content = Buffer.alloc(node.size);
  fetchInto(node, content, 0, node.size, 0);
  return content;
};
const discard = (node) => {
  told(natives.blobRemove(node.outside));
  node.outside = undefined;
};
// After the heap's copy has changed: where it lies from now on.
const settle = (node) => {
  if (node.size <= SPILL_BYTES) {
    if (node.outside !== undefined) discard(node);
    return;
  }
  const isNew = node.outside === undefined;
  if (isNew) {
    sweep();
    spilled += 1;
    node.outside = `${PREFIX}${spilled}`;
  }
  try {
    put(node, node.buf.subarray(0, node.size), false);
  } catch (error) {
    if (isNew) {
      node.outside = undefined;
      spilled -= 1;
    }
    // A host that keeps nothing: all of it stays in the heap.
    if (isNew && error.reason === 'NotSupported') return;
    throw error;
  }
  node.buf = NOTHING;
  node.capacity = 0;
};
// Changes the content in the heap, as memfs does it, and puts it back.
const inside = (node, change) => {
  if (node.outside !== undefined) {
    node.buf = contentOf(node);
    node.capacity = node.size;
  }
  const before = node.size;
  const result = change();
  try {
    settle(node);
  } catch (error) {
    if (node.outside === undefined) inHeap.truncate.call(node, before);
    else {
      node.size = before;
      node.buf = NOTHING;
      node.capacity = 0;
    }
    throw error;
  }
  return result;
};

Node.prototype.write = function write(buf, off = 0, len = buf.length, pos = 0) {
  const length = Math.min(len, buf.length - off);
  if (length > 0 && this.outside !== undefined && pos === this.size) {
    told(natives.blobWrite(this.outside, true, ...bytesOf(buf, off, length)));
    this.size += length;
    this.touch();
    return length;
  }
  if (this.outside === undefined && Math.max(this.size, pos + length) <= SPILL_BYTES) return inHeap.write.call(this, buf, off, len, pos);
  return inside(this, () => inHeap.write.call(this, buf, off, len, pos));
};
Node.prototype.read = function read(buf, off = 0, len = buf.byteLength, pos = 0) {
  if (this.outside === undefined) return inHeap.read.call(this, buf, off, len, pos);
  this.atime = new Date();
  return fetchInto(this, buf, off, Math.max(Math.min(len, buf.byteLength - off, this.size - pos), 0), pos);
};
Node.prototype.getBuffer = function getBuffer() {
  if (this.outside === undefined) return inHeap.getBuffer.call(this);
  this.atime = new Date();
  return contentOf(this);
};
Node.prototype._setBuf = function _setBuf(buf) {
  inHeap._setBuf.call(this, buf);
  settle(this);
};
Node.prototype.truncate = function truncate(len = 0) {
  if (this.outside !== undefined && len <= 0) {
    discard(this);
    return inHeap.truncate.call(this, 0);
  }
  if (this.outside === undefined && len <= SPILL_BYTES) return inHeap.truncate.call(this, len);
  return inside(this, () => inHeap.truncate.call(this, len));
};

const core = new Superblock({ process: require('web/process') });
core.mkdirp('/tmp', 0o777);

// Removes the contents of files that no name and no descriptor leads to any more.
const sweep = () => {
  if (spilled === 0) return;
  const reached = new Set();
  const visit = (link) => {
    const { outside } = link.getNode();
    if (outside !== undefined) reached.add(outside);
    for (const [name, child] of link.children) if (child && name !== '.' && name !== '..') visit(child);
  };
  visit(core.root);
  for (const file of Object.values(core.fds)) if (file?.node.outside !== undefined) reached.add(file.node.outside);
  for (const [key] of told(natives.blobList(PREFIX))) if (!reached.has(key)) told(natives.blobRemove(key));
};
const { deleteLink } = Superblock.prototype;
core.deleteLink = function (link) {
  const deleted = deleteLink.call(this, link);
  sweep();
  return deleted;
};

// Makes a content that the host has put under `key` the file's.
const adopt = (node, key, size) => {
  inHeap.truncate.call(node, 0);
  if (node.outside !== undefined) discard(node);
  spilled += 1;
  node.outside = key;
  node.size = size;
  if (size <= SPILL_BYTES) {
    node.buf = contentOf(node);
    node.capacity = size;
    discard(node);
  }
  node.touch();
};
// Makes another content the file's, too.
const adoptCopy = (node, from) => {
  const key = `${PREFIX}${spilled + 1}`;
  const size = told(natives.blobCopy(from, key));
  if (size >= 0) adopt(node, key, size);
  return size;
};

module.exports = {
  core, adopt, adoptCopy,
  get fs() { return require('node/fs'); },
};
