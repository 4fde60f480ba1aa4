const fs = require('fs');
const dir = fs.mkdtempSync('/tmp/dormouse-');
fs.writeFileSync(`${dir}/a`, 'x');
fs.symlinkSync(`${dir}/a`, `${dir}/s`);
fs.linkSync(`${dir}/a`, `${dir}/l`);
console.log(fs.readFileSync(`${dir}/s`, 'utf8'), fs.lstatSync(`${dir}/s`).isSymbolicLink(), fs.readlinkSync(`${dir}/s`) === `${dir}/a`, fs.realpathSync(`${dir}/s`) === `${dir}/a`, fs.statSync(`${dir}/l`).nlink);
fs.chmodSync(`${dir}/a`, 0o600);
console.log((fs.statSync(`${dir}/a`).mode & 0o777).toString(8));
fs.rmSync(dir, { recursive: true });
