const c = [1];
c.push(c);
try { console.log(String(c), c.join('-')); } catch (e) { console.log(e.name); }
