await new Promise((resolve) => setTimeout((a, b) => { console.log(a, b); resolve(); }, 1, 'x', 2));
await new Promise((resolve) => setImmediate((a) => { console.log(a); resolve(); }, 'now'));
try { setTimeout('text', 1); } catch (error) { console.log(error.name); }
