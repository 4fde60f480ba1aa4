class ValidationError extends Error {
  constructor(field, ...rest) { super(...rest); this.field = field; }
  get name() { return 'ValidationError'; }
  toJSON() { return { name: this.name, field: this.field, message: this.message }; }
}
const e = new ValidationError('age', 'too young');
console.log(String(e), JSON.stringify(e), e instanceof ValidationError, e.constructor.name, Object.keys(e));
function OldError(m) { this.message = m; } OldError.prototype = Object.create(Error.prototype, { constructor: { value: OldError }, name: { value: 'OldError' } });
const o = new OldError('old'); console.log(String(o), o instanceof Error, Object.prototype.toString.call(o));
for (const thrown of [1, 'str', null, undefined, { a: 1 }, Symbol.iterator, [1], () => 1]) try { throw thrown; } catch (x) { console.log(typeof x, x === thrown); }
const rethrow = () => { try { throw e; } catch (x) { x.extra = 1; throw x; } }; try { rethrow(); } catch (x) { console.log(x === e, x.extra); }
try { throw Object.freeze(new Error('frozen')); } catch (x) { console.log(Object.isFrozen(x), x.message); }
