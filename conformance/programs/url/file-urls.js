const { fileURLToPath, pathToFileURL, domainToASCII, domainToUnicode, urlToHttpOptions } = require('url');
console.log(fileURLToPath('file:///a/b%20c'), pathToFileURL('/a b#c?d').href, domainToASCII('español.com'), domainToUnicode('xn--fiq228c.com'), domainToASCII('xn--iñvalid.com'));
for (const bad of ['http://x', 'file:///a%2fb']) try { fileURLToPath(bad); } catch (error) { console.log(error.code); }
const options = urlToHttpOptions(new URL('https://a:b@x.com/p?q#h'));
console.log(options.hostname, options.path, options.auth, options.protocol);
