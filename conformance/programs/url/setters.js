const u = new URL('http://h.com/p?q#f');
for (const [key, value] of [['protocol', 'https'], ['host', 'x.org:81'], ['hostname', 'y.net'], ['port', '443'], ['port', '8080x'], ['port', ''], ['pathname', 'a b/ü'], ['search', 'x=1&y=ä'], ['hash', 'z z'], ['username', 'me@'], ['password', 'p:'], ['search', ''], ['hash', ''], ['protocol', 'nope'], ['port', 'abc'], ['hostname', '']]) {
  u[key] = value;
  console.log(key, u.href);
}
try { u.href = 'nope'; } catch (error) { console.log(error.code); }
u.origin;
console.log(String(u), JSON.stringify({ u }));
