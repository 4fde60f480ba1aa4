const { Buffer: B } = require('buffer');
for (const [text, encoding] of [['hé€😀', 'utf8'], ['68656c6c6f', 'hex'], ['aGVsbG8=', 'base64'], ['-_-_', 'base64url'], ['héllo', 'latin1'], ['abc', 'ascii'], ['ab', 'utf16le'], ['6865zz', 'hex'], ['aGV sbG8', 'base64']]) {
  console.log(encoding, B.from(text, encoding).toString('hex'));
}
