const b = Buffer.from('hi');
console.log(JSON.stringify(b), JSON.stringify({ b }), Buffer.from(JSON.parse(JSON.stringify(b))).toString());
