const fs = require('node:fs');
const { promises } = fs;
const dir = fs.mkdtempSync('/tmp/dormouse-');
const file = `${dir}/file`;
const tell = (name, work) => {
  try {
    console.log(name, work());
  } catch (error) {
    console.log(name, error.name, error.code, error.message.replaceAll(dir, 'DIR'));
  }
};
const tellLater = async (name, work) => {
  try {
    console.log(name, await work());
  } catch (error) {
    console.log(name, error.name, error.code, error.message.replaceAll(dir, 'DIR'));
  }
};
for (const data of [5, {}, null, undefined, true, Symbol('x'), []]) tell(typeof data, () => fs.writeFileSync(file, data));
tell('an array of words', () => { fs.writeFileSync(file, new Uint16Array([1, 258])); return fs.readFileSync(file); });
tell('a view', () => { fs.writeFileSync(file, new DataView(new ArrayBuffer(3), 1)); return fs.statSync(file).size; });
for (const [name, work] of Object.entries({
  flag: () => fs.writeFileSync(file, '', { flag: 'q' }), mode: () => fs.mkdirSync(`${dir}/m`, 'x'), recursive: () => fs.mkdirSync(`${dir}/m`, { recursive: 1 }),
  encoding: () => fs.readFileSync(file, 'none'), options: () => fs.readFileSync(file, 5), descriptor: () => fs.readSync('x', Buffer.alloc(1)),
  offset: () => fs.readSync(0, Buffer.alloc(4), 5, 1, 0), length: () => fs.readSync(0, Buffer.alloc(4), 2, 9, 0), buffer: () => fs.readSync(0, 'text'),
  views: () => fs.writevSync(0, ['x']), time: () => fs.utimesSync(file, 'soon', 1), owner: () => fs.chownSync(file, 1), length2: () => fs.truncateSync(file, 'x'),
  type: () => fs.symlinkSync('a', `${dir}/s`, 'wrong'), callback: () => fs.readFile(file), callback2: () => fs.stat(file, {}),
  both: () => fs.cpSync(file, `${dir}/c`, { dereference: true, verbatimSymlinks: true }), filter: () => fs.cpSync(file, `${dir}/c`, { filter: 1 }), retries: () => fs.rmSync(file, { maxRetries: -1 }),
  closed: () => fs.closeSync(9999), readonly: () => { const fd = fs.openSync(file); try { return fs.writeSync(fd, 'x'); } finally { fs.closeSync(fd); } },
  writeonly: () => { const fd = fs.openSync(file, 'a'); try { return fs.readSync(fd, Buffer.alloc(1)); } finally { fs.closeSync(fd); } },
  folder: () => fs.readFileSync(dir), unlink: () => fs.unlinkSync(dir), rm: () => fs.rmSync(dir), under: () => fs.mkdirSync(`${file}/a/b`, { recursive: true }), there: () => fs.mkdirSync(file, { recursive: true }),
  slash: () => fs.statSync(`${file}/`), long: () => fs.writeFileSync(`${dir}/${'n'.repeat(256)}`, '').length, exclusive: () => fs.copyFileSync(file, file, fs.constants.COPYFILE_EXCL),
})) tell(name, work);
fs.mkdirSync(`${dir}/a/b`, { recursive: true });
fs.writeFileSync(`${dir}/a/b/c`, '');
console.log(fs.readdirSync(`${dir}/a`, { recursive: true }).join(), (await promises.readdir(`${dir}/a`, { recursive: true })).join());
console.log(fs.mkdirSync(`${dir}/p/q/r`, { recursive: true }).replace(dir, 'DIR'), fs.mkdirSync(`${dir}/p/q`, { recursive: true }));
fs.mkdirSync(`${dir}/moved`);
tell('onto a folder', () => fs.renameSync(`${dir}/moved`, `${dir}/a`));
tell('into itself', () => fs.renameSync(`${dir}/a`, `${dir}/a/b/x`));
tell('over a file', () => { fs.writeFileSync(`${dir}/one`, '1'); fs.writeFileSync(`${dir}/two`, '22'); fs.renameSync(`${dir}/one`, `${dir}/two`); return fs.readFileSync(`${dir}/two`, 'utf8'); });
tell('through a link', () => { fs.symlinkSync('a', `${dir}/link`); fs.mkdirSync(`${dir}/link/new`); fs.writeFileSync(`${dir}/link/new/x`, ''); return [fs.readdirSync(`${dir}/a/new`), fs.realpathSync(`${dir}/link/new`).replace(dir, 'DIR'), fs.lstatSync(`${dir}/link`).size]; });
console.log((fs.statSync(file).mode & 0o777).toString(8), (fs.statSync(`${dir}/a`).mode & 0o777).toString(8));
const aborted = AbortSignal.abort(new Error('enough'));
for (const [name, work] of Object.entries({
  read: () => promises.readFile(file, { signal: aborted }), write: () => promises.writeFile(file, 'x', { signal: aborted }), none: () => promises.readFile(file, { signal: {} }),
  parts: async () => { await promises.writeFile(file, (async function* () { yield 'a'; yield 'bc'; })()); return promises.readFile(file, 'utf8'); },
  handle: async () => { const handle = await promises.open(file); await handle.close(); return handle.read(); },
  vectors: async () => { const handle = await promises.open(file); try { const { bytesRead, buffers } = await handle.readv([Buffer.alloc(2), Buffer.alloc(4)]); return [bytesRead, `${buffers[0]}`]; } finally { await handle.close(); } },
  position: async () => { const handle = await promises.open(file, 'r+'); try { await handle.write('Z', 1); return [(await handle.read()).bytesRead, await promises.readFile(file, 'utf8')]; } finally { await handle.close(); } },
})) await tellLater(name, work);
const controller = new AbortController();
const stopped = promises.readFile(file, { signal: controller.signal });
controller.abort();
await tellLater('stopped', () => stopped);
await new Promise((done) => fs.readFile(file, { signal: aborted }, (error) => { console.log(error.name, error.code, error.cause.message); done(); }));
await new Promise((done) => fs.stat(`${dir}/none`, function (error, ...rest) { console.log(error.message.replace(dir, 'DIR'), error.errno, rest.length); done(); }));
fs.rmSync(dir, { recursive: true });
