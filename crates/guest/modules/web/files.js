// What the files API asks of a session's file system: one request, one answer. Paths are absolute and have been checked.
const { fs, core, adopt } = require('web/volume');

const ENTRIES_MAX = 10000;
const kindOf = (stats) => (stats.isDirectory() ? 'directory' : stats.isFile() ? 'file' : stats.isSymbolicLink() ? 'link' : 'other');
const nodeOf = (path) => core.getResolvedLinkOrThrow(path, 'open').getNode();
const entry = (path, stats) => ({ path, kind: kindOf(stats), size: stats.isFile() ? stats.size : 0, modifiedMs: stats.mtimeMs });
const parentOf = (path) => path.slice(0, path.lastIndexOf('/')) || '/';

const content = (path) => {
  const node = nodeOf(path);
  return node.outside === undefined ? { base64: node.getBuffer().toString('base64') } : { key: node.outside };
};
const list = (path, recursive) => {
  const entries = [];
  let truncated = false;
  const visit = (folder) => {
    for (const name of fs.readdirSync(folder).sort()) {
      if (entries.length >= ENTRIES_MAX) {
        truncated = true;
        return;
      }
      const below = folder === '/' ? `/${name}` : `${folder}/${name}`;
      const stats = fs.lstatSync(below);
      entries.push(entry(below, stats));
      if (recursive && stats.isDirectory()) visit(below);
    }
  };
  const stats = fs.statSync(path);
  if (stats.isDirectory()) visit(path);
  else entries.push(entry(path, stats));
  return { entries, truncated };
};
const verbs = {
  __proto__: null,
  open: ({ path }) => {
    const stats = fs.statSync(path);
    return { ...entry(path, stats), ...(stats.isFile() ? content(path) : {}) };
  },
  list: ({ path, recursive }) => list(path, recursive),
  adopt: ({ path, key, size }) => {
    fs.mkdirSync(parentOf(path), { recursive: true });
    const descriptor = fs.openSync(path, 'a');
    try {
      adopt(nodeOf(path), key, size);
    } finally {
      fs.closeSync(descriptor);
    }
    return { ...entry(path, fs.statSync(path)), ...content(path) };
  },
  remove: ({ path, recursive }) => {
    const stats = fs.lstatSync(path);
    if (stats.isDirectory() && !recursive) fs.rmdirSync(path);
    else fs.rmSync(path, { recursive });
    return {};
  },
};

module.exports = {
  serve(request) {
    try {
      return verbs[request.verb](request);
    } catch (error) {
      return { error: { code: `${error.code ?? error.name}`, message: `${error.message}` } };
    }
  },
};
