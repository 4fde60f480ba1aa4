const fs = require('fs');
for (const work of [() => fs.readFileSync('/no/such/file'), () => fs.mkdirSync('/tmp'), () => fs.readdirSync('/no/such'), () => fs.rmdirSync('/no/such'), () => fs.readFileSync('/tmp'), () => fs.unlinkSync('/no/such')]) try { work(); console.log('fine'); } catch (error) { console.log(error.code, error.syscall, error instanceof Error); }
