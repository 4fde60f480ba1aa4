const { callbackify } = require('util');
await new Promise((done) => callbackify(async (a) => a * 2)(21, (error, value) => { console.log(error, value); done(); }));
await new Promise((done) => callbackify(async () => { throw new Error('no'); })((error) => { console.log(error.message); done(); }));
