Error.stackTraceLimit = 0;
const n = new Error('x'); n.name = 'Custom'; console.log(Object.keys(n), String(n));
class HttpError extends Error { get name() { return 'HttpError'; } constructor(s) { super('status ' + s); this.status = s; } }
console.log(new HttpError(404));
class ValidationError extends Error {} ValidationError.prototype.name = 'ValidationError';
console.log(new ValidationError('bad'));
