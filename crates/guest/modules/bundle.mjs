// node bundle.mjs OUT LICENCES NODE: every module of node/, web/ and npm/ as one script each, in one file that the guest's build compiles.
// NODE is the folder of Node's own sources, whose `lib/` some modules take as it is: `lib/NAME` names a file of it.
//
// A module is named by its file: node/path.js is `node/path`. Among each other modules are required by these names, so that a session
// holds each once, whoever asks for it. OUT is a row of `NAME LENGTH\n` and LENGTH bytes of script; same sources, same bytes.
// LICENCES names the packages whose code is in it, with the texts that they ask to be passed on.
import { readdirSync, writeFileSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { intlModules } from './intl-data.mjs';

const here = dirname(fileURLToPath(import.meta.url));
// What sources of packages call a module, where that is not its own name.
const aliases = { 'safe-buffer': 'node/buffer', 'abort-controller': 'web/abort', process: 'web/process', 'node:stream/web': 'web/streams', '@formatjs/intl-localematcher': 'web/locales', '@formatjs/bigdecimal': 'web/big-decimal' };
// What packages bring for older engines, and what the language says instead.
const spoken = {
  'object.assign/polyfill': 'module.exports = () => Object.assign;',
  'object-is/polyfill': 'module.exports = () => Object.is;',
  'object-is': 'module.exports = Object.is;',
  'object-keys': 'module.exports = Object.keys;',
  // Of memfs there are the nodes and names; what it has for its own fs beside them is Node's here.
  '@jsonjoy.com/fs-node-utils': "const { posix } = require('node/path'); module.exports = { constants: require('web/fs-constants'), pathSep: '/', pathJoin: posix.join, pathRelative: posix.relative, FLAGS: {} };",
  '@jsonjoy.com/fs-node-utils/lib/argErrors': 'exports.outOfRange = exports.invalidArgType = (name) => new RangeError(name);',
  '@jsonjoy.com/fs-node-utils/lib/validators': 'exports.INT32_MAX = 2 ** 31 - 1;',
  '@jsonjoy.com/fs-node-builtins/lib/path': "module.exports = require('node/path');",
  '@jsonjoy.com/fs-node-builtins/lib/internal/buffer': "const { Buffer } = require('node/buffer'); module.exports = { Buffer, bufferFrom: Buffer.from, bufferAllocUnsafe: Buffer.allocUnsafe };",
  'is-nan': 'module.exports = Number.isNaN;',
  'call-bind/callBound': 'module.exports = (name) => Function.prototype.call.bind(name.split(".").reduce((at, key) => at[key], globalThis));',
};
// Files whose work another module of ours does: node/util knows the kinds of values, web/streams is there.
const emptied = /fetch-blob\/streams\.cjs$|\/util\/support\/(types|isBufferBrowser)\.js$/;

const listed = (folder) => readdirSync(join(here, folder), { recursive: true, withFileTypes: true })
  .filter((file) => file.isFile() && file.name.endsWith('.js'))
  .map((file) => relative(here, join(file.parentPath ?? file.path, file.name)).slice(0, -3));
const files = [...listed('node'), ...listed('web'), ...listed('npm')].sort();
// One entry each for what a package has many of.
const plugins = readdirSync(join(here, 'node_modules/dayjs/plugin')).filter((name) => name.endsWith('.js')).map((name) => name.slice(0, -3)).sort();
const generated = Object.fromEntries(plugins.map((name) => [`npm/dayjs/plugin/${name}`, `module.exports = require('dayjs/plugin/${name}.js');`]));

// What Node's own files ask for among each other and is one of our modules, or a few lines here.
const lib = join(process.argv[4], 'lib');
const internals = {
  'internal/errors': 'web/errors', 'internal/validators': 'web/validators', 'internal/util': 'web/internals', 'internal/util/inspect': 'web/inspection',
  'internal/util/types': 'node/util/types', 'internal/util/comparisons': 'web/comparisons', 'internal/url': 'web/node-url',
  'internal/streams/utils': 'web/stream-utils', 'internal/webstreams/adapters': 'web/stream-adapters', 'internal/readline/interface': 'web/readline-interface', 'internal/readline/utils': 'web/readline-utils', 'internal/readline/callbacks': 'web/readline-callbacks', 'internal/readline/emitKeypressEvents': 'web/readline-keys',
  'internal/buffer': 'node/buffer', 'internal/streams/end-of-stream': 'web/stream-end',
};
const written = {
  'internal/util/debuglog': 'exports.debuglog = () => () => {};',
  'internal/options': 'exports.getOptionValue = () => undefined;',
  'internal/util/colors': 'module.exports = { blue: "", green: "", white: "", yellow: "", red: "", gray: "", clear: "", hasColors: false, shouldColorize: () => false, refresh() {} };',
  'internal/bootstrap/realm': 'exports.BuiltinModule = { exists: () => false };',
  'internal/v8/startup_snapshot': 'exports.namespace = { isBuildingSnapshot: () => false };',
  'internal/process/task_queues': 'exports.queueMicrotask = globalThis.queueMicrotask;',
  'internal/event_target': 'module.exports = require("web/listeners");',
  'internal/console/global': 'module.exports = globalThis.console;',
  'internal/abort_controller': 'exports.AbortController = globalThis.AbortController; exports.AbortSignal = globalThis.AbortSignal; exports.aborted = (signal) => new Promise((done) => { if (signal.aborted) done(); else signal.addEventListener("abort", () => done(), { once: true }); });',
  'internal/idna': 'exports.toASCII = (name) => require("web/url").domainToASCII(name); exports.toUnicode = (name) => require("web/url").domainToUnicode(name);',
  'internal/deps/acorn/acorn/dist/acorn': '', 'internal/deps/acorn/acorn-walk/dist/walk': '', 'internal/process/warning': '', 'internal/process/execution': '', 'internal/source_map/source_map_cache': '', vm: 'exports.runInNewContext = () => globalThis;',
  'internal/async_hooks': 'exports.symbols = { owner_symbol: Symbol("owner") }; exports.defaultTriggerAsyncIdScope = (id, work, ...args) => work(...args);',
  'internal/worker/js_transferable': 'for (const name of ["JSTransferable", "kDeserialize", "kTransfer", "kTransferList"]) exports[name] = Symbol(name);',
  'internal/blob': 'exports.isBlob = (value) => value instanceof Blob;',
  'internal/crypto/util': 'exports.getDefaultEncoding = () => "buffer";',
  'internal/encoding': 'exports.TextEncoder = globalThis.TextEncoder;',
  'internal/webstreams/readablestream': 'exports.ReadableStream = globalThis.ReadableStream; exports.isReadableStream = (value) => value instanceof ReadableStream;',
  'internal/webstreams/writablestream': 'exports.WritableStream = globalThis.WritableStream; exports.isWritableStream = (value) => value instanceof WritableStream;',
  'internal/webstreams/queuingstrategies': 'module.exports = { CountQueuingStrategy: globalThis.CountQueuingStrategy, ByteLengthQueuingStrategy: globalThis.ByteLengthQueuingStrategy };',
};
// Codes of errors that nothing here can raise: a closure each.
const foreignCodes = /^E\('ERR_(HTTP2|TLS|NAPI|VM|WORKER|INSPECTOR|MANIFEST|QUIC|TAP|DNS|DEBUGGER|NETWORK|SOCKET_DGRAM|WASI|TRACE|CHILD|IPC|LOADER|PACKAGE|UNSUPPORTED_DIR|UNSUPPORTED_ESM|REQUIRE_ESM|IMPORT|EVAL|SCRIPT|SERVER|SRI|TEST|DOMAIN|DUPLICATE|NOT_BUILDING|MODULE_NOT|INVALID_MODULE|INVALID_PACKAGE|INVALID_REPL)_/;
// Each piece of a text once, by what stands for it here.
const exchanged = (text, pieces, whose = "Node's file") => pieces.reduce((now, [from, to]) => {
  if (now.split(from).length !== 2) throw new Error(`${whose} no longer has once: ${from}`);
  return now.replace(from, () => to);
}, text);
const changes = {
  // As Node 20 has it: a folder is watched with all below it, and a file is a Blob.
  fs: (text) => exchanged(text, [
    ["  if (options.recursive && !(isOSX || isWindows))\n    throw new ERR_FEATURE_UNAVAILABLE_ON_PLATFORM('watch recursively');\n", ''],
    ["defineLazyProperties(\n  fs,\n  'internal/fs/dir',\n  ['Dir', 'opendir', 'opendirSync'],\n);", "Object.assign(fs, require('internal/fs/dir'));"],
    ['  openSync,\n  readdir,', '  openSync,\n  openAsBlob,\n  readdir,'],
    ['module.exports = fs = {', `async function openAsBlob(path, options = kEmptyObject) {
      validateObject(options, 'options');
      return new Blob([readFileSync(path)], { type: options.type });
    }
    module.exports = fs = {`],
  ]),
  'internal/fs/utils': (text) => exchanged(text, [
    ['this.path = filepath;', 'this.path = path;'],
    ["ERR_INVALID_ARG_VALUE(encoding, 'encoding', reason)", "ERR_INVALID_ARG_VALUE('encoding', encoding, reason)"],
  ]),
  // A handle is no value of a worker's, reads lines by a module that few need, and gives its bytes to a stream of the web.
  'internal/fs/promises': (text) => exchanged(text, [
    ["const { EventEmitterMixin } = require('internal/event_target');", "const EventEmitterMixin = () => require('events');"],
    ["const { Interface } = require('internal/readline/interface');\n", ''],
    ['return new Interface({', "return new (require('internal/readline/interface').Interface)({"],
    [text.slice(text.indexOf('    let readable;\n'), text.indexOf('    this[kRef]();\n    this.once(')), `
    const isBytes = options.type === 'bytes';
    const done = FunctionPrototypeBind(this[kUnref], this);
    let controller;
    const readable = new ReadableStream({
      type: isBytes ? 'bytes' : undefined,
      autoAllocateChunkSize: isBytes ? 16384 : undefined,
      start(it) { controller = it; },
      pull: async () => {
        const view = isBytes ? controller.byobRequest.view : new Uint8Array(16384);
        const { bytesRead } = await this.read(view, 0, view.byteLength);
        if (bytesRead === 0) {
          done();
          controller.close();
        }
        if (isBytes) controller.byobRequest.respond(bytesRead);
        else if (bytesRead > 0) controller.enqueue(view.buffer.slice(0, bytesRead));
      },
      cancel: done,
    }, isBytes ? undefined : { highWaterMark: 0 });
`],
    ['readableStreamCancel(readable);', "readable.locked ? controller.error(new DOMException('The FileHandle is closed', 'InvalidStateError')) : readable.cancel();"],
  ]),
  // Values of Temporal have no properties.
  'internal/util/comparisons': (text) => text.replace('const val1Tag = ObjectPrototypeToString(val1);', "const val1Tag = ObjectPrototypeToString(val1);\n  if (val1Tag.slice(8, 17) === 'Temporal.' && natives.isLoaded('web/temporal') && require('web/temporal').differ(val1, val2)) return false;"),
  // Only Node's own loader could say.
  'internal/util': (text) => text.replace('function isInsideNodeModules() {', 'function isInsideNodeModules() { return false; }\nfunction looksInside() {'),
  // As Node 20 has it: cells begin on the left.
  'internal/cli_table': (text) => text.replace('const needed = (columnWidths[i] - len) / 2;', 'const needed = columnWidths[i] - len;').replace("StringPrototypeRepeat(' ', needed) + cell +", 'cell +'),
  buffer: (text) => text.replace("validateNumber(size, 'size');\n  if (!(size >= 0 && size <= kMaxLength)) {\n    throw new ERR_INVALID_ARG_VALUE.RangeError('size', size);\n  }", "validateNumber(size, 'size', 0, kMaxLength);"),
  // A session does not keep the text of its cells, so an assertion cannot quote it.
  assert: (text) => text.replace('function getErrMessage(message, fn) {', 'function getErrMessage() { return undefined; }\nfunction quoted(message, fn) {'),
  'internal/errors': (text) => text.replace("typeof value === 'function' && value.name)", "typeof value === 'function')").split(/^(?=E\(')/m).filter((part) => !foreignCodes.test(part)).join('')
    // The engine keeps frames apart from the head that `stack` begins with.
    .replace('    captureLargerStackTrace(error);\n    error.code = key;', '    error.code = key; withCode(error, key);')
    .replace('function makeNodeErrorWithCode', `function withCode(error, key) {
      const told = error.stack; const at = told.indexOf('\\n    at ');
      const head = error.name + ' [' + key + ']: ' + error.message;
      ObjectDefineProperty(error, 'stack', { __proto__: null, value: at < 0 ? head : head + told.slice(at), writable: true, configurable: true, enumerable: false });
    }
    function makeNodeErrorWithCode`),
};

const data = new Map(intlModules(join(here, 'node_modules/@formatjs')));
const names = new Set([...files, ...Object.keys(generated), ...data.keys()]);
const moduleOf = (request) => {
  const name = request.replace(/^node:/, '').replace(/\/$/, '');
  if (aliases[request] ?? aliases[name]) return aliases[request] ?? aliases[name];
  if (names.has(request)) return request;
  return names.has(`node/${name}`) ? `node/${name}` : undefined;
};

const replaced = (path, ...pieces) => exchanged(readFileSync(path, 'utf8'), pieces, path);
// Zones are those of web/zones, for Intl and Temporal alike, and Temporal asks for a formatter when it formats.
const changedDates = (path) => replaced(path,
  ['const zoneData = tzData[timeZone];', 'const zone = require("web/zones").zoneOf(timeZone); if (zone !== undefined) return zone.at(t); const zoneData = undefined;'],
  ['if (IsValidDateTimeFormatOffset(tz)) return true;', 'return IsValidDateTimeFormatOffset(tz) || require("web/zones").find(tz) !== undefined;'],
  ['return ParseTimeZoneOffsetString$1(tz);', 'return ParseTimeZoneOffsetString$1(tz); return require("web/zones").find(tz)?.primary;'],
  ['Object.keys(links_default).reduce((all, l) => {\n\tall[l.toUpperCase()] = links_default[l];\n\treturn all;\n}, {})', '{}'],
  ['InitializeDateTimeFormat(this, locales, options, {', 'InitializeDateTimeFormat(this, locales, require("web/intl-options").note(this, options), {'],
).replaceAll('throw new RangeError("Invalid timeZoneName")', 'throw new RangeError(`Invalid time zone specified: ${timeZone}`)');
const between = (text, from, to, by) => {
  const [start, end] = [text.indexOf(from), text.indexOf(to)];
  if (start < 0 || end < start) throw new Error(`Temporal no longer has: ${from}`);
  return text.slice(0, start) + by + text.slice(end);
};
const changedTemporal = (path) => {
  let text = replaced(path, ['const RawDateTimeFormat = Intl.DateTimeFormat;', 'const RawDateTimeFormat = function (...given) { return new (require("web/intl-date").DateTimeFormat)(...given); };']);
  text = between(text, 'const queryNamedTimeZoneRecord =', 'function queryTimeZone(', `const queryNamedTimeZoneRecord = memoize((name) => {
    const found = require("web/zones").find(name);
    if (found === undefined) throwRangeError(invalidTimeZone(name));
    return { kind: found.primary === 'UTC' ? 'utc' : 'named', id: found.name, m: found.primary };
  });
  `);
  text = between(text, 'this.me = ((computeOffsetSec', '  B(epochNano) {\n    return this.me.ze(', `this.me = require("web/zones").zoneOf(id); }
  `);
  text = between(text, 'const options = Object.create(null);\n  return options.useGrouping', 'function formatIsoDateTimeFields(', 'return BigInt(n).toString(); }\n\n');
  text = between(text, 'return (new RawDateTimeFormat).resolvedOptions().timeZone', 'function createDateTimeFormatShell(', 'return "UTC"; }\n\n');
  return text.replace('RawDateTimeFormat.prototype.formatRange && Object', 'Object').replace('this.me.ze(', 'this.me.offsetAt(').replace('this.me.Ae(', 'this.me.instantsOf(').replace('this.me.C(', 'this.me.transition(');
};
const links = (own) => ({
  name: 'links',
  setup(builder) {
    builder.onResolve({ filter: /.*/ }, (args) => {
      if (args.kind === 'entry-point' || args.path.startsWith('.')) return undefined;
      // The module's own file means the package behind the name.
      const entry = args.importer === '' || args.importer === '<stdin>' || args.importer === join(here, `${own}.js`);
      if (args.path.startsWith('lib/')) return { path: join(lib, `${args.path.slice('lib/'.length)}.js`) };
      if (args.importer.startsWith(lib)) {
        // What asks for `fs` is a part of it.
        if (args.path === 'fs' && own === 'node/fs') return { path: join(lib, 'fs.js') };
        // `stream/promises` of ours is a part of the stream's module.
        if (args.path === 'stream/promises' && own === 'node/stream') return { path: join(lib, 'stream/promises.js') };
        if (written[args.path] !== undefined && !(own === 'node/util' && args.path === 'internal/util/debuglog')) return { path: args.path, namespace: 'spoken' };
        if (internals[args.path] !== undefined && internals[args.path] !== own) return { path: internals[args.path], external: true };
        if (args.path.startsWith('internal/')) return { path: join(lib, `${args.path}.js`) };
      }
      if (spoken[args.path] !== undefined) return { path: args.path, namespace: 'spoken' };
      const target = moduleOf(args.path);
      if (target === undefined || (entry && target === own)) return undefined;
      return { path: target, external: true };
    });
    builder.onLoad({ filter: /.*/, namespace: 'spoken' }, ({ path }) => ({ contents: spoken[path] ?? written[path], resolveDir: here }));
    builder.onLoad({ filter: /\/lib\/.*\.js$/ }, ({ path }) => {
      if (!path.startsWith(lib)) return undefined;
      const name = relative(lib, path).slice(0, -3);
      const text = readFileSync(path, 'utf8');
      const changed = changes[name]?.(text) ?? text;
      if (changes[name] !== undefined && changed === text) throw new Error(`${path} is not what is changed here`);
      // A callback of fs has no `this`: what calls it is strict, as it is in Node.
      const strict = /^(internal\/)?fs(\/|$)/.test(name) ? "'use strict';\n" : '';
      return { contents: `${strict}const { primordials, internalBinding } = require('web/primordials');\n${changed}` };
    });
    builder.onLoad({ filter: emptied }, () => ({ contents: '' }));
    // What Node's streams ask of a stream of the web: when it is closed, or failed.
    builder.onLoad({ filter: /web-streams-polyfill\/dist\/ponyfill\.mjs$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8');
      const made = text.replaceAll('e._state="closed"', 'e._state="closed",e._settle?.()').replaceAll('e._state="errored"', 'e._state="errored",e._settle?.()');
      if (made.split('_settle').length !== 5) throw new Error(`${path} ends its streams in another way now`);
      // With Node's codes.
      return { contents: exchanged(made, [
        ['new TypeError("view must have non-zero byteLength")', 'Object.assign(new TypeError("Invalid state: View ArrayBuffer is zero-length or detached"),{code:"ERR_INVALID_STATE"})'],
        ['new RangeError("The region specified by view does not match byobRequest")', 'Object.assign(new RangeError("The region specified by view does not match byobRequest"),{code:"ERR_INVALID_ARG_VALUE"})'],
        ['new RangeError("The region specified by view is larger than byobRequest")', 'Object.assign(new RangeError("The region specified by view is larger than byobRequest"),{code:"ERR_INVALID_ARG_VALUE"})'],
        ['new RangeError("The buffer of view has different capacity than byobRequest")', 'Object.assign(new RangeError("The buffer of view has different capacity than byobRequest"),{code:"ERR_INVALID_ARG_VALUE"})'],
        ['new TypeError("The given view\'s buffer has been detached and so cannot be used as a response")', 'Object.assign(new TypeError("Invalid state: Viewed ArrayBuffer is detached"),{code:"ERR_INVALID_STATE"})'],
      ], path) };
    });
    // All of lodash is there once.
    if (own === 'npm/lodash/fp') builder.onResolve({ filter: /^\.\/lodash\.min$/ }, () => ({ path: 'npm/lodash', external: true }));
    // The package looks for a better class of the same name, and would find its own.
    builder.onLoad({ filter: /event-target-shim\/index\.mjs$/ }, ({ path }) => ({ contents: replaced(path,
      ['const Global =', 'export const TRUSTED = {};\nexport const adopt = (target) => internalDataMap$2.set(target, createListenerListMap());\nconst Global = { DOMException }, unused ='],
      ['value: false,', 'value: eventInitDict === TRUSTED,'],
      ['signal: (_a = options.signal)', 'signal: (_a = signalOf(options.signal))'],
      ['function normalizeAddOptions', `function signalOf(signal) {
      if (signal !== undefined && (typeof signal !== 'object' || signal === null || !('aborted' in signal))) throw Object.assign(new TypeError('The "options.signal" property must be an instance of AbortSignal.'), { code: 'ERR_INVALID_ARG_TYPE' });
      return signal;
    }
    function normalizeAddOptions`],
      ['constructor(type, eventInitDict) {', 'constructor(type, eventInitDict) { if (arguments.length === 0) throw Object.assign(new TypeError(\'The "type" argument must be specified\'), { code: \'ERR_MISSING_ARGS\' });'],
    ) }));
    // Node itself says nothing about `url.parse`; nor should a console that shows to a user.
    builder.onLoad({ filter: /unenv\/dist\/runtime\/node\/url\.mjs$/ }, ({ path }) => ({ contents: replaced(path, ['let urlParseWarned = false', 'let urlParseWarned = true']) }));
    // What Node says of a zone and of a currency that are none.
    builder.onLoad({ filter: /intl-datetimeformat\/index\.js$/ }, ({ path }) => ({ contents: changedDates(path) }));
    builder.onLoad({ filter: /temporal-polyfill\/chunks\/(internal|classApi-basic)\.js$/ }, ({ path }) => ({ contents: path.endsWith('internal.js') ? changedTemporal(path) : replaced(path, ['export { DateTimeFormat,', 'export { getTemporalBrandingAndSlots, DateTimeFormat,']) }));
    builder.onLoad({ filter: /intl-numberformat\/index\.js$/ }, ({ path }) => ({ contents: replaced(path, ['"currency cannot be undefined"', '"Currency code is required with currency style."']) }));
    // A file's time is a number of the web's, read once.
    builder.onLoad({ filter: /fetch-blob\/file\.js$/ }, ({ path }) => ({ contents: replaced(path, ['const lastModified = options.lastModified === undefined ? Date.now() : Number(options.lastModified)', 'const given = options.lastModified; const lastModified = given === undefined ? Date.now() : +given']) }));
    // Every language of zod's messages is four fifths of it; `web/zod-locales` brings them when one is asked for.
    if (own === 'npm/zod') {
      builder.onLoad({ filter: /zod\/v4\/locales\/index\.js$/ }, ({ path }) => {
        const languages = [...readFileSync(path, 'utf8').matchAll(/export \{ default as (\w+) \}/g)].map((found) => found[1]);
        if (languages.length === 0) throw new Error(`${path} lists its languages in another way now`);
        return { contents: languages.map((it) => `export const ${it} = (...args) => require('web/zod-locales').${it}(...args);`).join('\n') };
      });
    }
  },
});

const used = new Set();
const script = async (name) => {
  const common = { bundle: true, write: false, metafile: true, format: 'cjs', platform: 'browser', target: 'es2022', charset: 'utf8', legalComments: 'none', minifySyntax: true, minifyWhitespace: true, absWorkingDir: here, plugins: [links(name)], inject: name === 'web/refusals' ? [] : [join(here, 'free/process.js')], define: { global: 'globalThis', 'process.env.NODE_ENV': '"production"' }, logLevel: 'warning' };
  // esbuild renames a class that names itself; those of the web and of Node are seen by their names.
  // Refusals have no class, and must hold in a realm whose prototypes a script has changed.
  if ((name.startsWith('web/') || name.startsWith('node/')) && !name.endsWith('locales') && name !== 'web/refusals') common.keepNames = true;
  const input = generated[name] === undefined ? { entryPoints: [join(here, `${name}.js`)] } : { stdin: { contents: generated[name], resolveDir: here } };
  const made = await build({ ...common, ...input });
  for (const file of Object.values(made.metafile.outputs).flatMap((output) => Object.entries(output.inputs))) if (file[1].bytesInOutput > 0) used.add(file[0]);
  return Buffer.from(`(function(exports,require,module,natives){${made.outputFiles[0].text}})`);
};

const parts = [];
for (const name of [...names].sort()) {
  const text = data.has(name) ? Buffer.from(`(function(exports,require,module,natives){${data.get(name)}})`) : await script(name);
  parts.push(Buffer.from(`${name} ${text.length}\n`), text);
}
writeFileSync(process.argv[2], Buffer.concat(parts));

// Packages by the folder of each file that is in a bundle.
const packages = [...new Set([...used].map((file) => file.match(/^node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+/)?.[0]).filter(Boolean))].sort();
const told = new Map();
const sections = packages.map((folder) => {
  const { name, version, license, homepage } = JSON.parse(readFileSync(join(here, folder, 'package.json'), 'utf8'));
  if (typeof license !== 'string') throw new Error(`${name} names no licence`);
  const text = readdirSync(join(here, folder)).filter((file) => /^licen[cs]e/i.test(file)).sort().map((file) => readFileSync(join(here, folder, file), 'utf8').trim());
  const whole = text.join('\n\n').replace(/[ \t\r]+$/gm, '');
  const shown = whole === '' ? '' : told.has(whole) ? `\n\nThe same text as of ${told.get(whole)}.` : `\n\n\`\`\`text\n${whole}\n\`\`\``;
  if (!told.has(whole)) told.set(whole, name);
  return `## ${name} ${version}\n\nLicence: ${license}${homepage ? `, ${homepage}` : ''}${shown}\n`;
});
// Node's own files are under its licence, not under those of the libraries that its file names further below.
const [ofNode] = readFileSync(join(process.argv[4], 'LICENSE'), 'utf8').split(/^The externally maintained/m);
sections.push(`## Node.js, files of its lib/\n\nLicence: MIT, https://nodejs.org\n\n\`\`\`text\n${ofNode.trim().replace(/[ \t\r]+$/gm, '')}\n\`\`\`\n`);
writeFileSync(process.argv[3], `# Packages in the engine\n\nWritten by bundle.mjs; what of them is in \`engine.wasm\` is unchanged but for what bundle.mjs says.\n\n${sections.join('\n')}`);
console.log(`bundled ${names.size} modules, ${Buffer.concat(parts).length} bytes`);
