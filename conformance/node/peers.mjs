// peers.mjs PACKAGES OUT: reads a JSON list of programs from stdin, writes each into OUT as one that this Node can run, and tells their paths as JSON.
// `.ts` goes through TypeScript as it is published, `.js` finds the proposal's own Temporal.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';

const [packages, out] = process.argv.slice(2);
const require = createRequire(join(packages, 'node_modules', 'x.js'));
const programs = JSON.parse(await text(process.stdin));
const METADATA = "Object.defineProperty(Symbol, 'metadata', { value: Symbol('Symbol.metadata') });\n";
const made = programs.map((program, at) => {
  const source = readFileSync(program, 'utf8');
  let script;
  if (program.endsWith('.ts')) {
    const ts = require('typescript');
    script = METADATA + ts.transpileModule(source, { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, useDefineForClassFields: true } }).outputText;
  } else {
    const temporal = pathToFileURL(require.resolve('@js-temporal/polyfill'));
    script = `import { Temporal, toTemporalInstant } from ${JSON.stringify(temporal)};\nglobalThis.Temporal = Temporal;\nDate.prototype.toTemporalInstant = toTemporalInstant;\n${source}`;
  }
  const path = join(out, `${at}-${basename(program).replace(/\.\w+$/, '')}.mjs`);
  writeFileSync(path, script);
  return path;
});
process.stdout.write(JSON.stringify(made));
