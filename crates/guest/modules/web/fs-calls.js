// How Node's own fs calls what is native to it: for its result at once, with a context that takes an error; for a request, whose `oncomplete` is told
// later; or for a promise.
const { uvException } = require('web/errors');
const { byNumber } = require('web/errnos');

const numbers = new Map([...byNumber].map(([number, [name]]) => [name, number]));
// What happens to a file, as memfs numbers it.
const CHANGES = { CREATE: 0, DELETE: 1, MODIFY: 2, ATTRIB: 3, MOVE: 4 };
const kUsePromises = Symbol('fs_use_promises_symbol');
// What an operation throws: the name of an error of the system.
class Fault extends Error {
  constructor(code) {
    super(code);
    this.code = code;
  }
}
// What the host says of a content that lies outside of the heap has words of its own.
const isSystems = (error) => error?.reason === undefined && numbers.has(error?.code);
const numberOf = (error) => numbers.get(error.code);
const errorOf = (error, syscall, path, dest) => (isSystems(error) ? uvException({ errno: numberOf(error), syscall, path, dest }) : error);
// After what the caller has left to do at once, as where another thread does the work.
const later = (work) => queueMicrotask(() => queueMicrotask(work));
// `arity` arguments, then a request or `kUsePromises`, or nothing and the context. The first `paths` of them are told in an error.
const call = (syscall, arity, paths, work) => (...args) => {
  const given = args.slice(0, arity);
  const request = args[arity];
  if (request === undefined) {
    try {
      return work(...given);
    } catch (error) {
      const context = args[arity + 1];
      if (isSystems(error)) Object.assign(context, { errno: numberOf(error), code: error.code, syscall });
      else context.error = error;
      return undefined;
    }
  }
  const [path, dest] = given.slice(0, paths);
  if (request === kUsePromises) {
    return new Promise((resolve, reject) => {
      later(() => {
        try {
          resolve(work(...given));
        } catch (error) {
          reject(errorOf(error, syscall, path, dest));
        }
      });
    });
  }
  later(() => {
    let failure = null;
    let result;
    try {
      result = work(...given);
    } catch (error) {
      failure = errorOf(error, syscall, path, dest);
    }
    if (failure !== null) request.oncomplete(failure);
    else if (result === undefined) request.oncomplete(null);
    else request.oncomplete(null, result);
  });
  return undefined;
};

module.exports = { CHANGES, Fault, call, kUsePromises, numberOf };
