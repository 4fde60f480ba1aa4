const fs = require('fs');
const dir = fs.mkdtempSync('/tmp/dormouse-');
const file = `${dir}/a.txt`;
fs.writeFileSync(file, 'one\n');
fs.appendFileSync(file, Buffer.from('two'));
console.log(JSON.stringify(fs.readFileSync(file, 'utf8')), fs.readFileSync(file).length, fs.existsSync(file), fs.statSync(file).size, fs.statSync(file).isFile(), fs.statSync(dir).isDirectory());
fs.rmSync(dir, { recursive: true });
console.log(fs.existsSync(dir));
