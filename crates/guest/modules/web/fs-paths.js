// Paths of the session's volume, and what is there.
const { core } = require('web/volume');
const { Buffer } = require('node/buffer');
const { Fault } = require('web/fs-calls');

const NAME_BYTES_MAX = 255;
const bytesOf = (view) => Buffer.from(view.buffer, view.byteOffset, view.byteLength);
const textOf = (path) => {
  const text = typeof path === 'string' ? path : bytesOf(path).toString();
  if (text === '') throw new Fault('ENOENT');
  return text;
};
const stepsOf = (path) => {
  const steps = core.filenameToSteps(textOf(path));
  if (steps.some((step) => Buffer.byteLength(step) > NAME_BYTES_MAX)) throw new Fault('ENAMETOOLONG');
  return steps;
};
const walked = (steps, follows) => {
  const { ok, value, err } = core.walk(steps, follows, true, true, 'open');
  if (!ok) throw new Fault(err.code);
  return value;
};
// What a path leads to; where it is a symbolic link, to that or to its target.
const linkAt = (path, follows) => {
  const isFolder = textOf(path).endsWith('/');
  const link = walked(stepsOf(path), follows || isFolder);
  if (isFolder && !link.getNode().isDirectory()) throw new Fault('ENOTDIR');
  return link;
};
const nodeAt = (path, follows = true) => linkAt(path, follows).getNode();
const folderAt = (path) => {
  const link = linkAt(path, true);
  if (!link.getNode().isDirectory()) throw new Fault('ENOTDIR');
  return link;
};
// Where a name is, or may come to be. The root is in no folder.
const placeOf = (path) => {
  const steps = stepsOf(path);
  if (steps.length === 0) return { folder: undefined, name: '', child: core.root };
  const folder = walked(steps.slice(0, -1), true);
  if (!folder.getNode().isDirectory()) throw new Fault('ENOTDIR');
  const name = steps.at(-1);
  return { folder, name, child: folder.getChild(name) };
};
const changeable = (folder) => {
  const node = folder.getNode();
  if (!node.canWrite() || !node.canExecute()) throw new Fault('EACCES');
};
// The place of something new.
const freePlace = (path) => {
  const place = placeOf(path);
  if (place.child) throw new Fault('EEXIST');
  changeable(place.folder);
  return place;
};
// The place of something that goes.
const takenPlace = (path) => {
  const place = placeOf(path);
  if (!place.child) throw new Fault('ENOENT');
  if (place.folder === undefined) throw new Fault('EBUSY');
  changeable(place.folder);
  return place;
};
const encoded = (name, encoding) => {
  if (encoding === undefined || encoding === null || encoding === 'utf8' || encoding === 'utf-8') return name;
  return encoding === 'buffer' ? Buffer.from(name) : Buffer.from(name).toString(encoding);
};

module.exports = { bytesOf, changeable, encoded, folderAt, freePlace, linkAt, nodeAt, placeOf, stepsOf, takenPlace, textOf };
