console.log(typeof console.log, console.log.name, Object.keys(console).includes('log'), Object.prototype.toString.call(console)); console.clear(); console.log('after clear');
