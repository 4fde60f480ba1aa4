for (const text of ['https://user:pa%20ss@example.com:8080/p/a/t/h?query=string#hash', 'http://EXAMPLE.com:80/../a/./b', 'file:///a/b c', 'data:text/plain,hi', 'mailto:a@b.c', 'http://[::1]:3000/', 'http://münchen.de/ä?ö#ü', 'ws://h', 'http://1.2.3/', 'blob:https://a.b/c']) {
  const u = new URL(text);
  console.log(['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'].map((key) => u[key]).join(' | '));
}
