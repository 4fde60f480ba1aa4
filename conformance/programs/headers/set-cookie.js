const h = new Headers();
h.append('Set-Cookie', 'a=1; Path=/');
h.append('set-cookie', 'b=2');
console.log(h.getSetCookie().join('|'), [...h].map((pair) => pair.join('=')).join('|'), h.get('set-cookie'));
