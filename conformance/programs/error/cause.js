const root = new Error('root');
const mid = new TypeError('mid', { cause: root });
const top = new RangeError('top', { cause: mid });
console.log(top.cause === mid, top.cause.cause.message, 'cause' in new Error('none'), 'cause' in new Error('u', { cause: undefined }), new Error('v', { cause: 0 }).cause);
console.log(Object.getOwnPropertyDescriptor(top, 'cause').enumerable, Object.keys(top), JSON.stringify(top), new Error('x', 'not options').cause, new Error('x', { get cause() { return 'got'; } }).cause);
const chain = []; for (let e = top; e; e = e.cause) chain.push(`${e.name}:${e.message}`); console.log(chain.join(' <- '));
const ag = new AggregateError([1, new Error('in')], 'many', { cause: 'c' }); console.log(ag.errors.length, ag.message, ag.cause, ag.name, ag instanceof Error, Object.keys(ag), AggregateError.length);
try { try { throw new Error('a'); } catch (cause) { throw new Error('b', { cause }); } } catch (e) { console.log(e.message, e.cause.message); }
