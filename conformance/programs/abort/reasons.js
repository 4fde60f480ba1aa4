const c = new AbortController();
c.abort('why');
console.log(c.signal.reason);
console.log(AbortSignal.abort(5).reason, AbortSignal.abort().reason.name, AbortSignal.abort().aborted);
try { new AbortSignal(); } catch (error) { console.log(error.name); }
new AbortController().signal.throwIfAborted();
