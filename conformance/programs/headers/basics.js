const h = new Headers({ 'Content-Type': 'text/plain', 'X-A': '1' });
h.append('x-a', '2');
h.set('B', ' trimmed\t');
console.log(h.get('CONTENT-type'), h.get('x-a'), JSON.stringify(h.get('b')), h.get('none'), h.has('X-B'));
h.delete('x-a');
console.log([...h].map((pair) => pair.join('=')).join(';'));
