const fs = require('node:fs');
const dir = fs.mkdtempSync('/tmp/dormouse-');
fs.writeFileSync(`${dir}/in`, 'one\ntwo\nthree\n');
const told = (stream, names) => new Promise((done) => {
  const seen = [];
  for (const name of names) stream.on(name, () => seen.push(name));
  stream.on('close', () => done(seen.join()));
});
const names = ['open', 'ready', 'data', 'end', 'finish', 'close'];
const read = fs.ReadStream(`${dir}/in`, { highWaterMark: 8 });
console.log(read instanceof fs.ReadStream, read.pending, read.autoClose, fs.ReadStream.name, fs.WriteStream.name, read.constructor.name);
console.log(await told(read, names), read.bytesRead, read.pending);
const written = fs.WriteStream(`${dir}/out`);
written.write('a');
written.end('bc');
console.log(await told(written, names), written.bytesWritten, fs.readFileSync(`${dir}/out`, 'utf8'));
const part = fs.createReadStream(`${dir}/in`, { start: 4, end: 6, encoding: 'utf8' });
part.on('data', (text) => console.log(text));
console.log(await told(part, names));
for (const options of [{ start: 6, end: 4 }, { start: 'a' }, { start: -1 }, { end: 1.5 }, { encoding: 'none' }, { fd: 'x' }, { fs: {} }]) {
  try {
    fs.createReadStream(`${dir}/in`, options);
  } catch (error) {
    console.log(error.name, error.code, error.message);
  }
}
const missing = fs.createReadStream(`${dir}/none`);
missing.on('error', (error) => console.log(error.code, error.syscall, error.path === `${dir}/none`));
console.log(await told(missing, names));
const handle = await fs.promises.open(`${dir}/in`);
for await (const line of handle.readLines({ start: 4 })) console.log('line', line);
console.log(handle.fd, handle.constructor.name);
const another = await fs.promises.open(`${dir}/in`);
const stream = another.createReadStream({ encoding: 'latin1' });
let text = '';
for await (const chunk of stream) text += chunk;
console.log(JSON.stringify(text), another.fd);
console.log(Object.keys(fs).filter((name) => typeof fs[name] === 'function' && fs[name].name !== name).join() || 'every function has its name');
fs.rmSync(dir, { recursive: true });
