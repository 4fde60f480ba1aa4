// Host operations: timersByNumber here, answered by the host, their resolvers kept in the heap.
const OPERATION = 0;
const DELAY_MS_MAX = 1e13;
const pending = new MapCtor();
// A timer costs its bytes only, so as many may wait for each call that may.
const TIMERS_FOR_ONE = 16;
let timersPending = 0;
let operations = 0;
// The file name of the cell whose code runs: what a cell leaves behind runs in its name.
let runningCell = '';
// Each cell has a life, an object of its own, which jobs, timers and operations hand on. It is made inextensible when the cell is stopped: then the
// engine drops the jobs that are part of it, and what they would have waited for is given up.

const delayOf = (value) => {
  const delay = typeof value === 'number' ? value : +value;
  // Whole milliseconds, so that fractions keep their order.
  return delay > 0 ? trunc(min(delay, DELAY_MS_MAX)) : 0;
};
// Delays of a timer's are taken modulo 2^32, as browsers do, and said to be; `sleep` keeps longer ones.
const TIMER_DELAYS = 2 ** 32;
const timerDelayOf = (value) => {
  const delay = typeof value === 'number' ? value : +value;
  if (!(delay >= TIMER_DELAYS)) return delayOf(delay);
  const wrapped = delay === Infinity ? 0 : trunc(delay) % TIMER_DELAYS;
  writeLine('warn', `TimeoutOverflowWarning: ${numberText(delay)} does not fit into 32 bits; the timer is set to ${numberText(wrapped)} ms. sleep(ms) waits longer.`);
  return wrapped;
};
const issue = (kindOfOperation, waiting) => {
  const isTimer = kindOfOperation.type === 'timer';
  if (waiting !== undefined) {
    const most = native.pendingMax() * (isTimer ? TIMERS_FOR_ONE : 1);
    if ((isTimer ? timersPending : mapSize(pending) - timersPending) >= most) {
      throw errorOf('PendingOperationsExceeded', `at most ${most} ${isTimer ? 'timers' : 'tool calls and fetches'} may wait at once; await some first`);
    }
  }
  const id = operations + 1;
  if (native.emit(OPERATION, jsonText({ __proto__: null, id, kind: kindOfOperation })) !== 0) {
    throw new RangeErrorCtor('the arguments are too large or too deeply nested');
  }
  operations = id;
  if (waiting !== undefined) {
    mapSet(pending, id, waiting);
    if (isTimer) timersPending += 1;
  }
  return id;
};
const cancelOperation = (id) => ({ __proto__: null, type: 'cancel', id });
const timerOperation = (delay) => ({ __proto__: null, type: 'timer', delayMs: delay });

// A timer is an object, as in Node, and what waits for its operation. Whoever wants a number of it gets one that `clearTimeout` knows.
const timersByNumber = new MapCtor();
let firing;
class Timeout {
  #callback;
  #args;
  #delay;
  #repeats;
  #operation = 0;
  #number = 0;
  #isRef = true;
  // In whose name it runs, and in which context.
  #cell = runningCell;
  #context = native.getContext();
  #life = native.getLife();
  constructor(callback, delay, args, repeats) {
    if (typeof callback !== 'function') {
      const error = new TypeErrorCtor(`The "callback" argument must be of type function. Received ${received(callback)}`);
      error.code = 'ERR_INVALID_ARG_TYPE';
      throw error;
    }
    this.#callback = callback;
    this.#args = args;
    this.#delay = delay;
    this.#repeats = repeats;
    this.#begin();
    this.#number = this.#operation;
  }
  #begin() { this.#operation = issue(timerOperation(max(this.#delay, 0)), this); }
  #end() {
    const id = this.#operation;
    if (id === 0) return;
    this.#operation = 0;
    if (mapDelete(pending, id)) timersPending -= 1;
    issue(cancelOperation(id));
  }
  static fire(timer) {
    runningCell = timer.#cell;
    native.setContext(timer.#context);
    native.setLife(timer.#life);
    timer.#operation = 0;
    if (timer.#repeats) timer.#begin();
    else mapDelete(timersByNumber, timer.#number);
    firing = timer;
    try {
      apply(timer.#callback, timer, timer.#args);
    } finally {
      firing = undefined;
    }
  }
  static stop(timer) {
    timer.#end();
    timer.#callback = undefined;
    timer.#args = undefined;
    mapDelete(timersByNumber, timer.#number);
  }
  static lifeOf(timer) { return timer.#life; }
  static is(value) { return typeof value === 'object' && value !== null && #callback in value; }
  ref() { this.#isRef = true; return this; }
  // What awaits nothing keeps no session awake anyway.
  unref() { this.#isRef = false; return this; }
  hasRef() { return this.#isRef; }
  // As Node's own fields, which libraries look at.
  get _repeat() { return this.#repeats ? this.#delay : null; }
  set _repeat(value) {
    this.#repeats = !!value;
    if (this.#repeats) {
      this.#delay = max(timerDelayOf(value), 1);
      // Set in the callback of its last round: there is another.
      if (this.#operation === 0 && this.#callback !== undefined) this.#begin();
    }
  }
  get _idleTimeout() { return this.#callback === undefined ? -1 : this.#delay; }
  set _idleTimeout(value) { if (value < 0) Timeout.stop(this); }
  get _onTimeout() { return this.#callback ?? null; }
  set _onTimeout(value) {
    if (typeof value === 'function') this.#callback = value;
    else Timeout.stop(this);
  }
  static kind(timer) { return timer.#delay < 0 ? 'Immediate' : 'Timeout'; }
  // One whose callback runs counts, too, as long as it is not cleared.
  static isFiring(timer) { return timer.#operation === 0 && timer.#delay >= 0 && timer.#callback !== undefined; }
  refresh() {
    if (this.#callback !== undefined) {
      this.#end();
      this.#begin();
    }
    return this;
  }
  close() { Timeout.stop(this); return this; }
  [toPrimitive]() {
    if (this.#operation !== 0) mapSet(timersByNumber, this.#number, this);
    return this.#number;
  }
}
method(Timeout.prototype, dispose, Timeout.prototype.close);
const received = (value) => {
  if (value === undefined || value === null) return `${value}`;
  if (typeof value === 'object') return `an instance of ${constructorName(value) ?? 'Object'}`;
  return `type ${typeof value} (${inspect(value)})`;
};
const stopTimer = (handle) => {
  const timer = typeof handle === 'number' || typeof handle === 'string' ? mapGet(timersByNumber, +handle) : handle;
  if (Timeout.is(timer)) Timeout.stop(timer);
};
const setTimeout = (callback, delay, ...args) => new Timeout(callback, timerDelayOf(delay), args, false);
// A delay that no timer has says that it is none.
const IMMEDIATE = -1;
class Immediate extends Timeout {}
const setImmediate = (callback, ...args) => new Immediate(callback, IMMEDIATE, args, false);
const activeTimers = () => {
  const kinds = [];
  mapForEach(pending, (waiting) => { if (Timeout.is(waiting)) kinds[kinds.length] = Timeout.kind(waiting); });
  if (firing !== undefined && Timeout.isFiring(firing)) kinds[kinds.length] = 'Timeout';
  return kinds;
};
const setInterval = (callback, delay, ...args) => new Timeout(callback, max(timerDelayOf(delay), 1), args, true);
const clearTimeout = (handle) => stopTimer(handle);

const sleep = (delay) => new PromiseCtor((resolve, reject) => {
  issue(timerOperation(delayOf(delay)), { __proto__: null, isTimer: true, cell: runningCell, life: native.getLife(), resolve, reject });
});

const callTool = (name, args, options) => {
  // The call's own stack: by the time of the answer there is none.
  const failure = new ErrorCtor('');
  return new PromiseCtor((resolve, reject) => {
    if (typeof name !== 'string') throw new TypeErrorCtor('callTool needs the name of a tool');
    const text = jsonText(args === undefined ? {} : args);
    if (text === undefined) throw new TypeErrorCtor('the arguments of a tool must be JSON');
    const reference = options?.reference === undefined ? undefined : !!options.reference;
    issue({ __proto__: null, type: 'tool', name: wellFormed(name), args: parse(text), reference }, { __proto__: null, cell: runningCell, life: native.getLife(), resolve, reject, failure });
  });
};
// A service itself, where its spec lets cells call it.
const callService = (service, request) => {
  if (typeof service !== 'string') throw new TypeErrorCtor('callService needs the name of a service');
  return loadModule('web/services').callService(service, request);
};
const ABOUT_TOOLS = {
  __proto__: null,
  list: () => callTool('tools.list'),
  declarations: () => callTool('tools.declarations', {}, { reference: false }),
};
const tools = new ProxyCtor(create(null), {
  get(target, name) {
    if (typeof name !== 'string' || name === 'then' || name === 'toJSON') return undefined;
    return ABOUT_TOOLS[name] ?? ((args, options) => callTool(name, args, options));
  },
  set() { return false; },
  defineProperty() { return false; },
});

// For modules: an operation's promise, and the number by which it can be given up.
const operate = (kindOfOperation) => {
  let id;
  const promise = new PromiseCtor((resolve, reject) => { id = issue(kindOfOperation, { __proto__: null, cell: runningCell, life: native.getLife(), resolve, reject }); });
  return { __proto__: null, id, promise };
};
// What the host is told and answers nothing to.
const tell = (kindOfOperation) => { issue(kindOfOperation); };
// Nobody waits for the operation any more, if there is one, which the host is told as it needs to be.
const giveUp = (id, kindOfOperation = cancelOperation(id)) => {
  if (id !== undefined) mapDelete(pending, id);
  issue(kindOfOperation);
};
// What stopped cells wait for.
const giveUpStopped = () => {
  mapForEach(pending, (waiting, id) => {
    const isTimeout = Timeout.is(waiting);
    const life = isTimeout ? Timeout.lifeOf(waiting) : waiting.life;
    if (life === undefined || isExtensible(life)) return;
    if (isTimeout) {
      Timeout.stop(waiting);
      return;
    }
    if (waiting.isTimer) timersPending -= 1;
    giveUp(id);
  });
};

const SERVE = 3;
const deliver = (id, status, answer) => {
  native.setContext(undefined);
  native.setLife(undefined);
  if (status === SERVE) {
    serve(answer);
    return;
  }
  const waiting = mapGet(pending, id);
  if (waiting === undefined) return;
  mapDelete(pending, id);
  if (Timeout.is(waiting) || waiting.isTimer) timersPending -= 1;
  if (Timeout.is(waiting)) {
    if (status === 2) Timeout.fire(waiting);
    return;
  }
  runningCell = waiting.cell;
  if (status === 1) {
    const error = waiting.failure ?? new ErrorCtor('');
    method(error, 'name', answer.name);
    method(error, 'message', answer.message);
    error.code = answer.name;
    waiting.reject(error);
  } else waiting.resolve(status === 2 ? undefined : answer);
};

const operationGlobals = { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval: clearTimeout, clearImmediate: clearTimeout, sleep, callTool, callService, tools };
for (const name in operationGlobals) expose(name, operationGlobals[name]);
