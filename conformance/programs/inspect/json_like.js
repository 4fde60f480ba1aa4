console.log(JSON.parse('{"users":[{"id":1,"name":"Ann","roles":["admin","dev"],"profile":{"age":30,"links":{"web":"https://example.org"}}},{"id":2,"name":"Bob","roles":[],"profile":null}],"total":2,"next":null}'));
console.log(JSON.parse('[{"type":"Feature","geometry":{"type":"Point","coordinates":[125.6,10.1]},"properties":{"name":"Dinagat Islands"}}]'));
