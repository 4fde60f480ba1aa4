const url = require('url');
for (const text of ['http://user:pass@host.com:8080/p/a/t/h?query=string#hash', '/a?b=c', '//h/p', 'mailto:a@b.c', 'HTTP://UP.com/Path', 'a/b']) {
  const u = url.parse(text);
  console.log(JSON.stringify([u.protocol, u.slashes, u.auth, u.host, u.port, u.hostname, u.hash, u.search, u.query, u.pathname, u.path, u.href]));
}
console.log(JSON.stringify(url.parse('/x?a=1&b=2&a=3', true).query), url.parse('//h/p', false, true).host);
