// node bundle.mjs OUT LICENCES: every module of node/, web/ and npm/ as one script each, in one file that the guest's build compiles.
//
// A module is named by its file: node/path.js is `node/path`. Among each other modules are required by these names, so that a session
// holds each once, whoever asks for it. OUT is a row of `NAME LENGTH\n` and LENGTH bytes of script; same sources, same bytes.
// LICENCES names the packages whose code is in it, with the texts that they ask to be passed on.
import { readdirSync, writeFileSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
// What sources of packages call a module, where that is not its own name.
const aliases = { 'safe-buffer': 'node/buffer', 'abort-controller': 'web/abort', process: 'web/process', 'node:stream/web': 'web/streams' };
// What packages bring for older engines, and what the language says instead.
const spoken = {
  'object.assign/polyfill': 'module.exports = () => Object.assign;',
  'object-is/polyfill': 'module.exports = () => Object.is;',
  'object-is': 'module.exports = Object.is;',
  'object-keys': 'module.exports = Object.keys;',
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

const names = new Set([...files, ...Object.keys(generated)]);
const moduleOf = (request) => {
  const name = request.replace(/^node:/, '').replace(/\/$/, '');
  if (aliases[request] ?? aliases[name]) return aliases[request] ?? aliases[name];
  if (names.has(request)) return request;
  return names.has(`node/${name}`) ? `node/${name}` : undefined;
};

const replaced = (path, from, to) => {
  const text = readFileSync(path, 'utf8');
  if (!text.includes(from)) throw new Error(`${path} no longer has: ${from}`);
  return text.replace(from, to);
};
const links = (own) => ({
  name: 'links',
  setup(builder) {
    builder.onResolve({ filter: /.*/ }, (args) => {
      if (args.kind === 'entry-point' || args.path.startsWith('.')) return undefined;
      // The module's own file means the package behind the name.
      const entry = args.importer === '' || args.importer === '<stdin>' || args.importer === join(here, `${own}.js`);
      if (spoken[args.path] !== undefined) return { path: args.path, namespace: 'spoken' };
      const target = moduleOf(args.path);
      if (target === undefined || (entry && target === own)) return undefined;
      return { path: target, external: true };
    });
    builder.onLoad({ filter: /.*/, namespace: 'spoken' }, ({ path }) => ({ contents: spoken[path] }));
    builder.onLoad({ filter: emptied }, () => ({ contents: '' }));
    // The package looks for a better class of the same name, and would find its own.
    builder.onLoad({ filter: /event-target-shim\/index\.mjs$/ }, ({ path }) => ({ contents: replaced(path, 'const Global =', 'const Global = { DOMException }, unused =') }));
    // Node itself says nothing about `url.parse`; nor should a console that shows to a user.
    builder.onLoad({ filter: /unenv\/dist\/runtime\/node\/url\.mjs$/ }, ({ path }) => ({ contents: replaced(path, 'let urlParseWarned = false', 'let urlParseWarned = true') }));
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
  const text = await script(name);
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
writeFileSync(process.argv[3], `# Packages in the engine\n\nWritten by bundle.mjs; what of them is in \`engine.wasm\` is unchanged but for what bundle.mjs says.\n\n${sections.join('\n')}`);
console.log(`bundled ${names.size} modules, ${Buffer.concat(parts).length} bytes`);
