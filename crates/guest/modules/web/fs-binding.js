// What is native to Node's own fs, over the session's volume.
const { core, adoptCopy } = require('web/volume');
const { Buffer } = require('node/buffer');
const process = require('web/process');
const constants = require('web/fs-constants');
const { CHANGES: { CREATE, DELETE, MODIFY, ATTRIB, MOVE }, Fault, call, kUsePromises } = require('web/fs-calls');
const { bytesOf, changeable, encoded, folderAt, freePlace, linkAt, nodeAt, placeOf, stepsOf, takenPlace, textOf } = require('web/fs-paths');

const BLOCK_BYTES = 4096;
const SECTOR_BYTES = 512;
const TMPFS = 0x01021994;
const ACCESS = constants.O_WRONLY | constants.O_RDWR;
const tell = (type, link, oldSteps) => core.emit({ type, steps: link.steps, node: link.getNode(), link, oldSteps });
const masked = (mode) => mode & ~process.umask();

// Descriptors are small numbers, as a system's are: the lowest that is free.
const FIRST_DESCRIPTOR = 3;
core.newFdNumber = () => {
  let fd = FIRST_DESCRIPTOR;
  while (core.fds[fd] !== undefined) fd += 1;
  return fd;
};
const fileOf = (fd) => {
  const file = core.fds[fd];
  if (file === undefined) throw new Fault('EBADF');
  return file;
};
const close = (fd) => {
  core.closeFile(fileOf(fd));
  core.releasedFds.length = 0;
};
const open = (path, flags, mode) => {
  stepsOf(path);
  return core.open(textOf(path), flags, masked(mode));
};
class FileHandle {
  constructor(fd) { this.fd = fd; }
  getAsyncId() { return 0; }
  close() {
    const { fd } = this;
    this.fd = -1;
    return binding.close(fd, kUsePromises);
  }
}
// A position that is none means where the file was left.
const placeIn = (position) => {
  const at = typeof position === 'bigint' ? Number(position) : position;
  return typeof at === 'number' && at >= 0 ? at : null;
};
const read = (fd, buffer, offset, length, position) => {
  const file = fileOf(fd);
  if ((file.flags & ACCESS) === constants.O_WRONLY) throw new Fault('EBADF');
  if (file.node.isDirectory()) throw new Fault('EISDIR');
  return core.read(fd, bytesOf(buffer), offset, length, placeIn(position));
};
const write = (fd, buffer, offset, length, position) => {
  if ((fileOf(fd).flags & ACCESS) === constants.O_RDONLY) throw new Fault('EBADF');
  return core.write(fd, bytesOf(buffer), offset, length, placeIn(position));
};
const each = (work, mayStop) => (fd, buffers, position) => {
  fileOf(fd);
  let at = placeIn(position);
  let all = 0;
  for (const buffer of buffers) {
    const done = work(fd, buffer, 0, buffer.byteLength, at);
    all += done;
    if (at !== null) at += done;
    if (mayStop && done < buffer.byteLength) break;
  }
  return all;
};
const truncate = (fd, length) => {
  const file = fileOf(fd);
  if ((file.flags & ACCESS) === constants.O_RDONLY) throw new Fault('EINVAL');
  file.truncate(length);
  tell(MODIFY, file.link);
};
const copyFile = (from, to, mode) => {
  const source = nodeAt(from);
  if (source.isDirectory()) throw new Fault('EISDIR');
  if (!source.canRead()) throw new Fault('EACCES');
  const exclusive = (mode & constants.COPYFILE_EXCL) !== 0;
  if (!exclusive && placeOf(to).child?.getNode() === source) return;
  const fd = core.open(textOf(to), constants.O_WRONLY | constants.O_CREAT | (exclusive ? constants.O_EXCL : constants.O_TRUNC), masked(source.perm));
  try {
    const { node } = fileOf(fd);
    // What lies outside of the heap is copied there.
    if (source.outside !== undefined) adoptCopy(node, source.outside);
    else if (source.size > 0) core.write(fd, source.getBuffer(), 0, source.size, 0);
    node.perm = source.perm;
  } finally {
    close(fd);
  }
};

const rename = (from, to) => {
  const { folder: before, child: link } = takenPlace(from);
  const { folder, name, child: there } = placeOf(to);
  const node = link.getNode();
  if (there?.getNode() === node) return;
  if (folder === undefined) throw new Fault('EBUSY');
  changeable(folder);
  for (let at = folder; at !== core.root; at = at.parent) if (at === link) throw new Fault('EINVAL');
  if (there) {
    const isFolder = there.getNode().isDirectory();
    if (isFolder && !node.isDirectory()) throw new Fault('EISDIR');
    if (!isFolder && node.isDirectory()) throw new Fault('ENOTDIR');
    if (there.length > 0) throw new Fault('ENOTEMPTY');
    drop(there);
  }
  const steps = link.steps;
  before.deleteChild(link);
  link.name = name;
  link.steps = [...folder.steps, name];
  folder.setChild(name, link);
  tell(MOVE, link, steps);
};
const drop = (link) => {
  tell(DELETE, link);
  core.deleteLink(link);
  const node = link.getNode();
  if (node.isDirectory()) return;
  node.nlink -= 1;
  if (node.nlink <= 0) core.deleteNode(node);
};
const makeFolder = (path, mode) => {
  const { folder, name } = freePlace(path);
  tell(CREATE, folder.createChild(name, core.createNode(constants.S_IFDIR | (masked(mode) & 0o7777))));
};
// The first of the folders that it made, or nothing.
const makeFolders = (path, mode) => {
  const text = textOf(path);
  let first;
  for (let end = text.indexOf('/', 1); ; end = text.indexOf('/', end + 1)) {
    const part = end < 0 ? text : text.slice(0, end);
    try {
      makeFolder(part, mode);
      first ??= part;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
      if (!nodeAt(part).isDirectory()) throw new Fault(end < 0 || end === text.length - 1 ? 'EEXIST' : 'ENOTDIR');
    }
    if (end < 0) return first;
  }
};
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const makeTemporary = (template, encoding) => {
  const path = textOf(template).replace(/X{6}$/, () => Array.from({ length: 6 }, () => LETTERS[Math.floor(Math.random() * LETTERS.length)]).join(''));
  makeFolder(path, 0o700);
  return encoded(path, encoding);
};
const removeFolder = (path) => {
  const { child } = takenPlace(path);
  if (!child.getNode().isDirectory()) throw new Fault('ENOTDIR');
  if (child.length > 0) throw new Fault('ENOTEMPTY');
  drop(child);
};
const unlink = (path) => {
  const { child } = takenPlace(path);
  if (child.getNode().isDirectory()) throw new Fault('EISDIR');
  drop(child);
};
const link = (from, to) => {
  const node = nodeAt(from, false);
  if (node.isDirectory()) throw new Fault('EPERM');
  const { folder, name } = freePlace(to);
  node.nlink += 1;
  tell(CREATE, folder.createChild(name, node));
};
const symlink = (target, path) => {
  const text = textOf(target);
  const { folder, name } = freePlace(path);
  const made = folder.createChild(name);
  made.getNode().makeSymlink(text);
  made.getNode().mode = constants.S_IFLNK | 0o777;
  tell(CREATE, made);
};
const readlink = (path, encoding) => {
  const node = nodeAt(path, false);
  if (!node.isSymlink()) throw new Fault('EINVAL');
  return encoded(node.symlink, encoding);
};

const MS = 1000;
const fieldsOf = (node) => {
  const size = node.isSymlink() ? Buffer.byteLength(node.symlink) : node.getSize();
  const times = [node.atime, node.mtime, node.ctime, node.btime].flatMap((time) => {
    const ms = time.getTime() || 0;
    const seconds = Math.floor(ms / MS);
    return [seconds, (ms - seconds * MS) * 1e6];
  });
  return [0, node.mode, node.nlink, node.uid, node.gid, node.rdev, BLOCK_BYTES, node.ino, size, Math.ceil(size / SECTOR_BYTES), ...times];
};
const shaped = (fields, isBig) => (isBig ? BigInt64Array.from(fields, BigInt) : Float64Array.from(fields));
const statsOf = (node, isBig) => shaped(fieldsOf(node), isBig);
const changed = (found, change) => {
  change(found.getNode());
  tell(ATTRIB, found);
};
const chmod = (mode) => (node) => { node.perm = mode & 0o7777; };
const chown = (uid, gid) => (node) => {
  if (uid >= 0) node.uid = uid;
  if (gid >= 0) node.gid = gid;
};
const utimes = (atime, mtime) => (node) => {
  node.atime = new Date(Math.round(atime * MS));
  node.mtime = new Date(Math.round(mtime * MS));
};
// A file without a name has its node still.
const opened = (fd) => {
  const file = fileOf(fd);
  return { getNode: () => file.node, steps: file.link.steps };
};
const access = (path, mode) => {
  const node = nodeAt(path);
  const may = (bit, is) => (mode & bit) === 0 || is;
  if (!may(constants.R_OK, node.canRead()) || !may(constants.W_OK, node.canWrite()) || !may(constants.X_OK, node.canExecute())) throw new Fault('EACCES');
};

const typeOf = (node) => (node.isDirectory() ? constants.UV_DIRENT_DIR : node.isSymlink() ? constants.UV_DIRENT_LINK : node.isFile() ? constants.UV_DIRENT_FILE : constants.UV_DIRENT_CHAR);
const entriesOf = (path) => {
  const folder = folderAt(path);
  if (!folder.getNode().canRead()) throw new Fault('EACCES');
  return [...folder.children].filter(([name]) => name !== '.' && name !== '..').sort(([one], [other]) => (one < other ? -1 : 1));
};
const readdir = (path, encoding, isTyped) => {
  const entries = entriesOf(path);
  const names = entries.map(([name]) => encoded(name, encoding));
  return isTyped ? [names, entries.map(([, child]) => typeOf(child.getNode()))] : names;
};
const opendir = (path) => {
  const entries = entriesOf(path);
  return {
    read: call('scandir', 2, 0, (encoding, most) => {
      const part = entries.splice(0, most);
      return part.length === 0 ? null : part.flatMap(([name, child]) => [encoded(name, encoding), typeOf(child.getNode())]);
    }),
    close: call('closedir', 0, 0, () => undefined),
  };
};

const binding = {
  kUsePromises, kFsStatsFieldsNumber: 18, statValues: new Float64Array(36), FSReqCallback: class FSReqCallback {}, FileHandle,
  access: call('access', 2, 1, access), open: call('open', 3, 1, open), close: call('close', 1, 0, close),
  openFileHandle: call('open', 3, 1, (path, flags, mode) => new FileHandle(open(path, flags, mode))),
  read: call('read', 5, 0, read), readBuffers: call('read', 3, 0, each(read, true)),
  writeBuffer: call('write', 5, 0, write), writeBuffers: call('write', 3, 0, each(write, false)),
  writeString: call('write', 4, 0, (fd, text, position, encoding) => {
    const bytes = Buffer.from(text, encoding);
    return write(fd, bytes, 0, bytes.length, position);
  }),
  ftruncate: call('ftruncate', 2, 0, truncate), fsync: call('fsync', 1, 0, (fd) => void fileOf(fd)), fdatasync: call('fdatasync', 1, 0, (fd) => void fileOf(fd)),
  copyFile: call('copyfile', 3, 2, copyFile), rename: call('rename', 2, 2, rename), link: call('link', 2, 2, link), symlink: call('symlink', 3, 2, symlink),
  mkdir: call('mkdir', 3, 1, (path, mode, isDeep) => (isDeep ? makeFolders(path, mode) : makeFolder(path, mode))),
  mkdtemp: call('mkdtemp', 2, 1, makeTemporary), rmdir: call('rmdir', 1, 1, removeFolder), unlink: call('unlink', 1, 1, unlink),
  readdir: call('scandir', 3, 1, readdir), readlink: call('readlink', 2, 1, readlink),
  realpath: call('realpath', 2, 1, (path, encoding) => encoded(linkAt(path, true).getPath() || '/', encoding)),
  stat: call('stat', 2, 1, (path, isBig) => statsOf(nodeAt(path), isBig)), lstat: call('lstat', 2, 1, (path, isBig) => statsOf(nodeAt(path, false), isBig)),
  fstat: call('fstat', 2, 0, (fd, isBig) => statsOf(fileOf(fd).node, isBig)),
  statfs: call('statfs', 2, 1, (path, isBig) => (nodeAt(path), shaped([TMPFS, BLOCK_BYTES, 0, 0, 0, 0, 0], isBig))),
  chmod: call('chmod', 2, 1, (path, mode) => changed(linkAt(path, true), chmod(mode))), fchmod: call('fchmod', 2, 0, (fd, mode) => changed(opened(fd), chmod(mode))),
  chown: call('chown', 3, 1, (path, uid, gid) => changed(linkAt(path, true), chown(uid, gid))),
  lchown: call('lchown', 3, 1, (path, uid, gid) => changed(linkAt(path, false), chown(uid, gid))),
  fchown: call('fchown', 3, 0, (fd, uid, gid) => changed(opened(fd), chown(uid, gid))),
  utimes: call('utime', 3, 1, (path, atime, mtime) => changed(linkAt(path, true), utimes(atime, mtime))),
  lutimes: call('lutime', 3, 1, (path, atime, mtime) => changed(linkAt(path, false), utimes(atime, mtime))),
  futimes: call('futime', 3, 0, (fd, atime, mtime) => changed(opened(fd), utimes(atime, mtime))),
  internalModuleStat(path) {
    try {
      return nodeAt(path).isDirectory() ? 1 : 0;
    } catch {
      return -1;
    }
  },
  get StatWatcher() { return require('web/fs-watch').StatWatcher; },
};

module.exports = { binding, folders: { opendir: call('opendir', 2, 1, opendir) }, fieldsOf, shaped };
