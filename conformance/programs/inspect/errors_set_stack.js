const e = new Error('message');
e.stack = 'Error: message\n    at place (file.js:1:2)\n    at other (file.js:3:4)';
console.log(e);
console.log({ nested: e });
e.code = 'E'; console.log(e);
const bare = new Error('x'); bare.stack = 'Error: x'; console.log(bare);
const odd = new Error('x'); odd.stack = 'not like a stack'; console.log(odd);
