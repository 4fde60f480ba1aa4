// A name has at most 255 bytes, however few characters that are.
const fs = require('fs');
const path = require('path');
const folder = fs.mkdtempSync(path.join(require('os').tmpdir(), 'names-'));
for (const [what, name] of [
  ['255 of one byte', 'a'.repeat(255)], ['256 of one byte', 'a'.repeat(256)],
  ['127 of two bytes and one', `${'é'.repeat(127)}a`], ['128 of two bytes', 'é'.repeat(128)],
  ['85 of three bytes', '水'.repeat(85)], ['86 of three bytes', '水'.repeat(86)],
  ['63 of four bytes and three', `${'🦀'.repeat(63)}abc`], ['64 of four bytes', '🦀'.repeat(64)],
]) {
  for (const [verb, work] of [['write', () => fs.writeFileSync(path.join(folder, name), 'x')], ['folder', () => fs.mkdirSync(path.join(folder, name, 'below'))], ['exists', () => fs.existsSync(path.join(folder, name))]]) {
    try {
      console.log(what, verb, work());
    } catch (error) {
      console.log(what, verb, error.code);
    }
  }
}
fs.rmSync(folder, { recursive: true });
