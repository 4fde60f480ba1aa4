// Host operations: numbered here, answered by the host, their resolvers kept in the heap.
const OPERATION = 0;
const DELAY_MS_MAX = 1e13;
const pending = new MapCtor();
const intervals = new MapCtor();
let operations = 0;
// The file name of the cell whose code runs: what a cell leaves behind runs in its name.
let runningCell = '';

const delayOf = (value) => {
  const delay = typeof value === 'number' ? value : +value;
  return delay > 0 ? min(delay, DELAY_MS_MAX) : 0;
};
const issue = (kindOfOperation, waiting) => {
  if (waiting !== undefined && mapSize(pending) >= native.pendingMax()) {
    throw errorOf('PendingOperationsExceeded', `at most ${native.pendingMax()} timers, tool calls and fetches may wait at once; await some first`);
  }
  const id = operations + 1;
  if (native.emit(OPERATION, jsonText({ __proto__: null, id, kind: kindOfOperation })) !== 0) {
    throw new RangeErrorCtor('the arguments are too large or too deeply nested');
  }
  operations = id;
  if (waiting !== undefined) {
    waiting.cell = runningCell;
    mapSet(pending, id, waiting);
  }
  return id;
};
const timerOperation = (delay) => ({ __proto__: null, type: 'timer', delayMs: delay });

const startTimer = (name, callback, delay, args) => {
  if (typeof callback !== 'function') throw new TypeErrorCtor(`${name} needs a function`);
  return issue(timerOperation(delay), { __proto__: null, callback, args });
};
const setTimeout = (callback, delay, ...args) => startTimer('setTimeout', callback, delayOf(delay), args);
const setImmediate = (callback, ...args) => startTimer('setImmediate', callback, 0, args);
const setInterval = (callback, delay, ...args) => {
  if (typeof callback !== 'function') throw new TypeErrorCtor('setInterval needs a function');
  const every = max(delayOf(delay), 1);
  const interval = { __proto__: null, callback, args, every, handle: 0 };
  interval.handle = issue(timerOperation(every), interval);
  mapSet(intervals, interval.handle, interval.handle);
  return interval.handle;
};
const clearTimeout = (handle) => {
  const id = mapGet(intervals, handle) ?? handle;
  mapDelete(intervals, handle);
  const waiting = mapGet(pending, id);
  if (waiting === undefined || waiting.callback === undefined) return;
  mapDelete(pending, id);
  issue({ __proto__: null, type: 'cancelTimer', id });
};

const sleep = (delay) => new PromiseCtor((resolve, reject) => {
  issue(timerOperation(delayOf(delay)), { __proto__: null, resolve, reject });
});

const callTool = (name, args, options) => {
  // The call's own stack: by the time of the answer there is none.
  const failure = new ErrorCtor('');
  return new PromiseCtor((resolve, reject) => {
    if (typeof name !== 'string') throw new TypeErrorCtor('callTool needs the name of a tool');
    const text = jsonText(args === undefined ? {} : args);
    if (text === undefined) throw new TypeErrorCtor('the arguments of a tool must be JSON');
    const reference = options?.reference === undefined ? undefined : !!options.reference;
    issue({ __proto__: null, type: 'tool', name: wellFormed(name), args: parse(text), reference }, { __proto__: null, resolve, reject, failure });
  });
};
// A service itself, where its spec lets cells call it.
const callService = (service, request) => {
  if (typeof service !== 'string') throw new TypeErrorCtor('callService needs the name of a service');
  return callTool('callService', { __proto__: null, ...request, service });
};
const listTools = () => callTool('tools.list');
const tools = new ProxyCtor(create(null), {
  get(target, name) {
    if (typeof name !== 'string' || name === 'then' || name === 'toJSON') return undefined;
    if (name === 'list') return listTools;
    return (args, options) => callTool(name, args, options);
  },
  set() { return false; },
  defineProperty() { return false; },
});

// For modules: an operation's promise, and the number by which it can be given up.
const operate = (kindOfOperation) => {
  let id;
  const promise = new PromiseCtor((resolve, reject) => { id = issue(kindOfOperation, { __proto__: null, resolve, reject }); });
  return { __proto__: null, id, promise };
};
// Nobody waits for the operation any more, which `kindOfOperation` tells the host.
const giveUp = (id, kindOfOperation) => {
  if (id !== undefined) mapDelete(pending, id);
  issue(kindOfOperation);
};

const fire = (id, waiting) => {
  if (waiting.every !== undefined) {
    const next = issue(timerOperation(waiting.every), waiting);
    mapSet(intervals, waiting.handle, next);
  }
  apply(waiting.callback, undefined, waiting.args);
};
const SERVE = 3;
const deliver = (id, status, answer) => {
  if (status === SERVE) {
    serve(answer);
    return;
  }
  const waiting = mapGet(pending, id);
  if (waiting === undefined) return;
  mapDelete(pending, id);
  runningCell = waiting.cell;
  if (waiting.callback !== undefined) {
    if (status === 2) fire(id, waiting);
  } else if (status === 1) {
    const error = waiting.failure ?? new ErrorCtor('');
    method(error, 'name', answer.name);
    method(error, 'message', answer.message);
    error.code = answer.name;
    waiting.reject(error);
  } else waiting.resolve(status === 2 ? undefined : answer);
};

const operationGlobals = { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval: clearTimeout, clearImmediate: clearTimeout, sleep, callTool, callService, tools };
for (const name in operationGlobals) expose(name, operationGlobals[name]);
