const later = (ms, v, fail) => new Promise((y, n) => setTimeout(() => (fail ? n(v) : y(v)), ms));
console.log(await Promise.all([later(8, 'a'), later(2, 'b'), 'c']));
console.log(await Promise.race([later(30, 'slow'), later(2, 'fast')]));
console.log(await Promise.any([later(2, 'x', true), later(8, 'ok')]));
console.log(await Promise.allSettled([later(2, 1), later(2, new Error('no').message, true), 3]));
try { await Promise.any([later(2, 'x', true), Promise.reject('y')]); } catch (e) { console.log(e.name, e.constructor.name, e.errors, e instanceof AggregateError); }
try { await Promise.all([later(2, 1), later(1, 'first', true), later(3, 'second', true)]); } catch (e) { console.log(e); }
console.log(await Promise.all([]), await Promise.allSettled([]), await Promise.all('ab'));
try { await Promise.any([]); } catch (e) { console.log(e.errors); }
try { await Promise.all(5); } catch (e) { console.log(e.name); }
