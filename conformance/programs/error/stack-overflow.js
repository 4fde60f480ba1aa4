const f = () => f();
try { f(); } catch (e) { console.log(e.name, e instanceof RangeError, e.message); }
let depth = 0; const g = () => { depth++; g(); }; try { g(); } catch {} console.log(depth > 500);
const o = { toString() { return `${o}`; } }; try { String(o); } catch (e) { console.log(e.name); }
try { (function r() { try { r(); } finally { } })(); } catch (e) { console.log(e.name); }
const p = new Proxy({}, { get(t, k, r) { return r[k]; } }); try { p.x; } catch (e) { console.log(e.name); }
console.log('alive');
