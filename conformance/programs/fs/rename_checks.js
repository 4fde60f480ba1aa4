const fs = require('fs');
const path = require('path');
const folder = fs.mkdtempSync(path.join(require('os').tmpdir(), 'rename-'));
const at = (...parts) => path.join(folder, ...parts);
fs.mkdirSync(at('a', 'b'), { recursive: true });
fs.writeFileSync(at('file'), 'x');
for (const [from, to] of [['a', 'a/b/c'], ['file', 'a'], ['a', 'file'], ['nothing', 'x'], ['file', 'a/b/moved'], ['a', 'z'], ['z', 'z']]) {
  try {
    fs.renameSync(at(from), at(to));
    console.log(from, to, fs.existsSync(at(to)));
  } catch (error) {
    console.log(from, to, error.code, error.syscall);
  }
}
fs.rmSync(folder, { recursive: true });
