const deep = { 1: { 2: { 3: { 4: { 5: {} } } } } };
console.log(deep); console.dir(deep, { depth: 0 }); console.dir(deep, { depth: 1 }); console.dir(deep, { depth: null }); console.dir(deep, { depth: Infinity });
console.dir([[[[[]]]]], { depth: 1 }); console.dir(new Map([[{ a: {} }, new Set([[[]]])]]), { depth: 1 });
class K { k = new Map([[1, 2]]); } console.dir({ a: new K() }, { depth: 0 }); console.dir([new K()], { depth: 0 });
