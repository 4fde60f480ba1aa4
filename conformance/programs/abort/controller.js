const c = new AbortController();
const s = c.signal;
console.log(s.aborted, s.reason);
s.addEventListener('abort', (event) => console.log(event.type, event.target === s));
s.onabort = () => console.log('onabort');
c.abort();
c.abort('again');
console.log(s.aborted, s.reason.name, s.reason.code, s.reason.message);
try { s.throwIfAborted(); } catch (error) { console.log(error === s.reason); }
