const log = [];
const f = (mode) => { try { log.push('try'); if (mode === 'return') return 'r'; if (mode === 'throw') throw 't'; return 'n'; } catch (e) { log.push('catch'); return `c${e}`; } finally { log.push('finally'); if (mode === 'override') return 'o'; } };
console.log(f('return'), f('throw'), f('override'), f(), log.join(' '));
const g = () => { for (let i = 0; ; i++) { try { if (i === 1) continue; if (i === 3) break; log.push(i); } finally { log.push(`f${i}`); } } return 'out'; }; log.length = 0; console.log(g(), log.join());
const h = () => { try { throw 1; } finally { return 'swallowed'; } }; const k = () => { l: try { return 'lost'; } finally { break l; } return 'kept'; }; console.log(h(), k());
const order = []; const v = () => { let x = 1; try { return x; } finally { x = 2; order.push(x); } }; console.log(v(), order);
try { try { throw 'first'; } finally { throw 'second'; } } catch (e) { console.log(e); }
const nested = () => { try { try { return 'inner'; } finally { log.push('a'); } } finally { log.push('b'); } }; log.length = 0; console.log(nested(), log);
try { null.x; } catch { console.log('no binding'); } try { throw { code: 5, d: [1, 2] }; } catch ({ code, d: [, second] }) { console.log(code, second); }
const gen = function* () { try { yield 1; yield 2; } finally { log.push('gen closed'); } }; log.length = 0; for (const x of gen()) { try { if (x === 1) break; } finally { log.push('loop'); } } console.log(log);
