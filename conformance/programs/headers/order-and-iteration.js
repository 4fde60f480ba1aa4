const h = new Headers([['Zed', '1'], ['alpha', '2'], ['Mid', '3'], ['alpha', '4']]);
console.log([...h.keys()].join(), [...h.values()].join('|'), [...h.entries()].length);
h.forEach((value, name, self) => console.log(name, value, self === h));
console.log(JSON.stringify(Object.fromEntries(h)), Object.prototype.toString.call(h));
