// Modules from outside the engine: packages of npm, whose sources lie outside the heap, one content for each package, and the session's own files. What
// a cell or another module asks for is found by Node's rules, read, and evaluated once. ES modules are linked by the engine, which asks here for names
// and texts. A file of a package is `npm:NAME@VERSION/PATH`, one of the session `file:///PATH`.
const { blobRead, utf8Decode, script, linkModule, isResolving, loadModule, isKnown, exported } = natives;
const process = require('web/process');

// A content: HEAD_BYTES of two lengths, the header as JSON, the index, the sources. A line of the index is a path, where its source begins, its bytes.
const HEAD_BYTES = 32;
const CONDITIONS = { import: ['node', 'import', 'module-sync', 'default'], require: ['node', 'require', 'default'] };
const EXTENSIONS = ['', '.js', '.json', '.cjs', '.mjs'];

const coded = (code, message) => Object.assign(new Error(message), { code });
const told = (answer) => {
  if (typeof answer === 'object') throw Object.assign(coded(answer.name, answer.message), { name: answer.name });
  return answer;
};
const text = (key, at, bytes) => {
  const buffer = new ArrayBuffer(bytes);
  if (told(blobRead(key, at, buffer, 0, bytes)) !== bytes) throw coded('SnapshotCorrupt', `${key} is shorter than it says`);
  return utf8Decode(buffer, 0, bytes, false);
};

const opened = new Map();
const open = (id) => {
  const known = opened.get(id);
  if (known !== undefined) return known;
  const key = `npm:${id}`;
  const [headerBytes, indexBytes] = text(key, 0, HEAD_BYTES).trim().split(' ').map(Number);
  const { manifest, dependencies } = JSON.parse(text(key, HEAD_BYTES, headerBytes));
  const index = text(key, HEAD_BYTES + headerBytes, indexBytes);
  const found = { id, key, name: id.slice(0, id.lastIndexOf('@')), manifest, dependencies, index, sources: HEAD_BYTES + headerBytes + indexBytes, folders: new Map() };
  opened.set(id, found);
  return found;
};
// The session's own files, as a package that may change.
const volume = { id: 'file:', dependencies: {} };
const fs = () => loadModule('node/fs');
const withoutMark = (source) => (source.charCodeAt(0) === 0xfeff ? source.slice(1) : source);
const has = (pack, path) => {
  if (pack === volume) return fs().statSync(`/${path}`, { throwIfNoEntry: false })?.isFile() ?? false;
  return pack.index.includes(`\n${path}\t`);
};
const read = (pack, path) => {
  if (pack === volume) return withoutMark(fs().readFileSync(`/${path}`, 'utf8'));
  const at = pack.index.indexOf(`\n${path}\t`) + path.length + 2;
  const [from, bytes] = pack.index.slice(at, pack.index.indexOf('\n', at)).split('\t').map(Number);
  return withoutMark(text(pack.key, pack.sources + from, bytes));
};
const OWN_FILE = 'file:///';
const isOwn = (file) => file.startsWith(OWN_FILE);
const FILE = /^npm:((?:@[^/]+\/)?[^/]+)\/(.*)$/s;
const parsed = (file) => {
  if (isOwn(file)) return { pack: volume, path: decodeURIComponent(file.slice(OWN_FILE.length).replace(/[?#].*$/s, '')) };
  const [, id, path] = FILE.exec(file);
  return { pack: open(id), path };
};
const named = (pack, path) => (pack === volume ? `${OWN_FILE}${path.replace(/[%?#]/g, encodeURIComponent)}` : `npm:${pack.id}/${path}`);
const folderOf = (path) => path.slice(0, Math.max(path.lastIndexOf('/'), 0));
// Undefined for what leads out of the package.
const join = (folder, path) => {
  const parts = folder === '' ? [] : folder.split('/');
  for (const part of path.split('/')) {
    if (part === '..') {
      if (parts.pop() === undefined) return undefined;
    } else if (part !== '' && part !== '.') parts.push(part);
  }
  return parts.join('/');
};

// What the package.json of a folder says, if there is one.
const manifestOf = (pack, folder) => {
  if (pack === volume) {
    const path = folder === '' ? 'package.json' : `${folder}/package.json`;
    return has(volume, path) ? JSON.parse(read(volume, path)) : folder === '' ? {} : undefined;
  }
  if (folder === '') return pack.manifest;
  if (!pack.folders.has(folder)) pack.folders.set(folder, has(pack, `${folder}/package.json`) ? JSON.parse(read(pack, `${folder}/package.json`)) : undefined);
  return pack.folders.get(folder);
};
const asFile = (pack, path) => EXTENSIONS.map((it) => `${path}${it}`).find((it) => has(pack, it));
const asFolder = (pack, folder) => {
  const main = manifestOf(pack, folder)?.main;
  const path = typeof main === 'string' ? join(folder, main) : undefined;
  const found = path === undefined || path === folder ? undefined : asFile(pack, path) ?? asFile(pack, `${path}/index`);
  return found ?? asFile(pack, folder === '' ? 'index' : `${folder}/index`);
};

// PACKAGE_TARGET_RESOLVE of Node's documentation: undefined when no condition holds, null when it is not to be had.
const targetOf = (value, conditions, star, inner) => {
  if (typeof value === 'string') {
    const path = value.replaceAll('*', () => star);
    if (value.startsWith('./')) return { path: join('', path) };
    if (inner && !value.startsWith('../') && !value.startsWith('/')) return { bare: path };
    return null;
  }
  if (Array.isArray(value)) {
    for (const one of value) {
      const found = targetOf(one, conditions, star, inner);
      if (found) return found;
    }
    return null;
  }
  if (typeof value !== 'object' || value === null) return null;
  for (const condition of Object.keys(value)) {
    if (!conditions.includes(condition)) continue;
    const found = targetOf(value[condition], conditions, star, inner);
    if (found !== undefined) return found;
  }
  return undefined;
};
const matchOf = (table, key, conditions, inner) => {
  if (Object.hasOwn(table, key) && !key.includes('*')) return targetOf(table[key], conditions, '', inner);
  let best;
  for (const pattern of Object.keys(table)) {
    const at = pattern.indexOf('*');
    if (at < 0 || key.length < pattern.length || !key.startsWith(pattern.slice(0, at)) || !key.endsWith(pattern.slice(at + 1))) continue;
    if (best === undefined || at > best.at || (at === best.at && pattern.length > best.pattern.length)) best = { pattern, at };
  }
  if (best === undefined) return undefined;
  return targetOf(table[best.pattern], conditions, key.slice(best.at, key.length - (best.pattern.length - best.at - 1)), inner);
};
const NOT_FOUND = { import: 'ERR_MODULE_NOT_FOUND', require: 'MODULE_NOT_FOUND' };
const exportOf = (pack, sub, how) => {
  const { exports } = pack.manifest;
  const isTable = typeof exports === 'object' && !Array.isArray(exports) && Object.keys(exports).some((it) => it.startsWith('.'));
  const found = matchOf(isTable ? exports : { '.': exports }, sub === '' ? '.' : `./${sub}`, CONDITIONS[how], false);
  if (!found) throw coded('ERR_PACKAGE_PATH_NOT_EXPORTED', `Package ${pack.id} does not export '${sub === '' ? '.' : `./${sub}`}'`);
  return found.path !== undefined && has(pack, found.path) ? found.path : undefined;
};
// The file behind a path of a package, as others name it.
const entry = (id, sub, how) => {
  const pack = open(id);
  const inner = () => {
    const path = join('', sub);
    return path === undefined ? undefined : asFile(pack, path) ?? asFolder(pack, path);
  };
  const path = pack.manifest.exports != null ? exportOf(pack, sub, how) : sub === '' ? asFolder(pack, '') : inner();
  if (path === undefined) throw coded(NOT_FOUND[how], `Cannot find module '${sub === '' ? id : `${id}/${sub}`}': the package has no such source`);
  return named(pack, path);
};

const known = (name) => {
  const bare = name.replace(/^node:/, '');
  if (bare === 'process') return 'web/process';
  return isKnown(`node/${bare}`) ? `node/${bare}` : undefined;
};
const inPackage = (pack, path, name) => {
  const at = join(folderOf(path), name);
  if (at === undefined) return undefined;
  const file = /(^|\/)\.{0,2}$/.test(name) ? undefined : asFile(pack, at);
  return file ?? asFolder(pack, at);
};
// What a file means by a name: a file of a package, or a module that the engine has.
const resolve = (name, base, how) => {
  const { pack, path } = parsed(base);
  // An import of the session's files is a URL, whose query makes another module of the same file.
  const [, place, query = ''] = pack === volume && how === 'import' ? /^(?:file:\/\/)?(.*?)([?#].*)?$/s.exec(name) : [name, name];
  const file = pack === volume && how === 'import' ? decodeURIComponent(place) : place;
  if (/^\.{1,2}(\/|$)/.test(file) || (pack === volume && file.startsWith('/'))) {
    const found = inPackage(pack, file.startsWith('/') ? '' : path, file);
    if (found !== undefined) return `${named(pack, found)}${query}`;
  } else if (name.startsWith('#')) {
    const found = matchOf(manifestOf(pack, '').imports ?? {}, name, CONDITIONS[how], true);
    if (found?.bare !== undefined) return resolve(found.bare, base, how);
    if (found?.path !== undefined && has(pack, found.path)) return named(pack, found.path);
  } else if (name !== '' && !name.startsWith('/')) {
    const own = known(name);
    if (own !== undefined) return own;
    const [, root, sub] = /^((?:@[^/]*\/)?[^/]*)\/?(.*)$/s.exec(name);
    if (root === pack.name && pack.manifest.exports != null) return entry(pack.id, sub, how);
    const needed = Object.hasOwn(pack.dependencies, root) ? pack.dependencies[root] : told(natives.package(root));
    if (typeof needed === 'string') return entry(needed, sub, how);
    if (isKnown(`npm/${name}`)) return `npm/${name}`;
  }
  throw coded(NOT_FOUND[how], `Cannot find module '${name}'${base === CELL ? ': the session has no such file' : `, which ${base} asks for`}`);
};
// A cell stands at the root of the session's files.
const CELL = `${OWN_FILE}cell`;
const ownFile = (name, how) => resolve(name, CELL, how);

const kinds = new Map();
const COMPILED = ['.ts', '.tsx', '.mts', '.cts', '.jsx'];
const kindOf = (file) => {
  const known = kinds.get(file);
  if (known !== undefined) return known;
  const { pack, path } = parsed(file);
  const extension = path.slice(path.lastIndexOf('.'));
  if (COMPILED.includes(extension)) {
    throw coded('ERR_UNKNOWN_FILE_EXTENSION', `${file} is no JavaScript: only cells are compiled; write it as .js, or run its text as a cell`);
  }
  if (extension === '.mjs') return 'module';
  if (extension === '.json') return 'json';
  if (extension === '.cjs') return 'commonjs';
  let folder = folderOf(path);
  while (manifestOf(pack, folder) === undefined) folder = folderOf(folder);
  return manifestOf(pack, folder).type ?? 'unknown';
};

// What was evaluated: of packages by file, of the session's files by path, for scripts to delete as in Node.
const packageModules = new Map();
const cache = Object.create(null);
const loaded = {
  get: (file) => (isOwn(file) ? cache[pathOf(file)] : packageModules.get(file)),
  set(file, module) {
    if (isOwn(file)) cache[pathOf(file)] = module;
    else packageModules.set(file, module);
  },
  delete(file) {
    if (isOwn(file)) delete cache[pathOf(file)];
    else packageModules.delete(file);
  },
};
const requireOf = (file) => {
  const require = (name) => {
    if (typeof name !== 'string') throw new TypeError('the name of a module must be a string');
    return requireFile(resolve(name, file, 'require'));
  };
  require.resolve = (name) => shown(resolve(name, file, 'require'));
  require.cache = isOwn(file) ? cache : {};
  return require;
};
const pathOf = (file) => (isOwn(file) ? `/${parsed(file).path}` : `/npm/${file.slice('npm:'.length)}`);
// As `require.resolve` shows it.
const shown = (file) => (isOwn(file) ? pathOf(file) : file);
const compiled = (file) => {
  const { pack, path } = parsed(file);
  const source = read(pack, path).replace(/^#!/, '//');
  return script(file, `(function(process,global){return function(exports,require,module,__filename,__dirname){${source}\n}})`)(process, globalThis);
};
// The function of a CommonJS module; undefined for an ES module that nothing but its syntax tells.
const commonOf = (file) => {
  const kind = kindOf(file);
  if (kind === 'module') return undefined;
  try {
    return compiled(file);
  } catch (error) {
    if (kind !== 'unknown' || !(error instanceof SyntaxError)) throw error;
    // Of the session's own the text may be another by the next time.
    if (!isOwn(file)) kinds.set(file, 'module');
    return undefined;
  }
};
const run = (file, common) => {
  const path = pathOf(file);
  const module = { exports: {}, id: shown(file), filename: path, path: folderOf(path), loaded: false, children: [], paths: [] };
  loaded.set(file, module);
  let done = false;
  try {
    common.call(module.exports, module.exports, requireOf(file), module, path, folderOf(path));
    module.loaded = done = true;
  } finally {
    // What has failed, or a limit has stopped half way, is evaluated again by who asks next.
    if (!done) loaded.delete(file);
  }
  return module.exports;
};
const namespaces = new Map();
const namespaceOf = (file) => {
  if (!namespaces.has(file)) {
    // Two graphs of modules that meet must not be resolved at the same time.
    if (isResolving()) throw coded('ERR_REQUIRE_CYCLE_MODULE', `${file} is an ES module: it cannot be required while ES modules that import its user are loaded. Import it in a cell before`);
    namespaces.set(file, linkModule(`require:${file}`, `export * as default from ${JSON.stringify(file)}`).default);
  }
  const namespace = namespaces.get(file);
  return 'module.exports' in namespace ? namespace['module.exports'] : namespace;
};
const requireFile = (file) => {
  if (!file.startsWith('npm:') && !isOwn(file)) return loadModule(file);
  const known = loaded.get(file);
  if (known !== undefined) return known.exports;
  if (kindOf(file) === 'json') {
    const { pack, path } = parsed(file);
    loaded.set(file, { exports: JSON.parse(read(pack, path)) });
    return loaded.get(file).exports;
  }
  const common = commonOf(file);
  return common === undefined ? namespaceOf(file) : run(file, common);
};

// An import that fails in a graph is a module that throws: the others stay whole, and whoever evaluates it gets the error.
// Its name is the reason: of an import that misses a name in it the engine tells no more.
const REASON_CHARS_MAX = 200;
let failed = 0;
const failures = new Map();
const reasonOf = (error) => {
  try { return `${error?.message ?? error}`.slice(0, REASON_CHARS_MAX); } catch { return 'it failed'; }
};
const failing = (file, error) => ({
  name: `${reasonOf(error)} (${file})`,
  source: 'throw import.meta.error',
  meta: (meta) => { meta.error = error; },
  otherwise: (again) => { throw again; },
});
const resolveImport = (name, base) => {
  try {
    const found = resolve(name, base, 'import');
    if (found === 'web/process') return 'dormouse:process';
    return found.replace(/^(node|npm)\//, '$1:');
  } catch (error) {
    const file = `npm:cannot-find@${++failed}/${name}`;
    failures.set(file, error);
    return file;
  }
};
const FREE = /\b(process|global)\b/;
const OWN = 'const process=import.meta.process,global=globalThis;';
const esModule = (file) => {
  const { pack, path } = parsed(file);
  const source = read(pack, path).replace(/^#!/, '//');
  const meta = (meta) => {
    const filename = pathOf(file);
    Object.assign(meta, { url: `file://${filename}`, filename, dirname: folderOf(filename), resolve: (name) => resolve(name, file, 'import') });
    if (isOwn(file)) meta.url = file;
    Object.defineProperty(meta, 'process', { value: process });
  };
  const plain = { name: file, source, meta, otherwise: (error) => failing(file, error) };
  // One that has a `process` of its own says so by refusing ours.
  return FREE.test(source) ? { ...plain, source: OWN + source, otherwise: () => plain } : plain;
};
// What the engine links: names and values of what is evaluated here, or the text of an ES module.
const load = (file) => {
  if (file === 'dormouse:process') return exported(process, process);
  const failure = failures.get(file);
  if (failure !== undefined) {
    failures.delete(file);
    return failing(file, failure);
  }
  try {
    const known = loaded.get(file);
    const common = known === undefined && kindOf(file) !== 'json' ? commonOf(file) : undefined;
    if (known === undefined && common === undefined && kindOf(file) !== 'json') return esModule(file);
    const exports = common === undefined ? requireFile(file) : run(file, common);
    if (kindOf(file) === 'json') return [['default'], [exports]];
    return exported(exports, exports);
  } catch (error) {
    return failing(file, error);
  }
};

module.exports = { cache, ownFile, shown, entry, requireFile, resolveImport, load };
