const a = new AbortController(), b = new AbortController();
const s = AbortSignal.any([a.signal, b.signal]);
s.addEventListener('abort', () => console.log('any', s.reason));
b.abort('b first');
a.abort('late');
console.log(s.aborted, s.reason, AbortSignal.any([]).aborted, AbortSignal.any([AbortSignal.abort(1)]).reason);
const nested = AbortSignal.any([AbortSignal.any([s])]);
console.log(nested.aborted, nested.reason);
