// Calls of MCP clients, and what their functions ask the client meanwhile. A call is in the heap and in no cell: a cell runs it until it ends or asks,
// and another one brings the answer, on whichever process the session is then. So a client that never answers holds up nobody.
const { AsyncLocalStorage } = require('node/async_hooks');

// Calls that have not ended. The oldest one makes room.
const CALLS_MAX = 64;
// Questions of a call that wait at once.
const QUESTIONS_MAX = 32;
// Jobs that may run until it is told that a call asks: what was begun together is asked together.
const ROUNDS = 16;
const KEY = /^[A-Za-z0-9_.-]{1,64}$/;

const calls = new Map();
const current = new AsyncLocalStorage();
// Errors that say that a client lacks a capability, which the client is told in its own words.
const lacking = new WeakMap();

const refusal = (message) => Object.assign(new RangeError(message), { code: 'QuotaExceeded' });
const failed = (name, message) => {
  const error = new Error(message);
  Object.defineProperty(error, 'name', { value: name, writable: true, configurable: true });
  error.code = name;
  return error;
};

// What is said against an answer of a client.
const FAULTS = {
  'elicitation/create'(answer, { requestedSchema }) {
    if (!['accept', 'decline', 'cancel'].includes(answer.action)) return 'action: write accept, decline or cancel';
    if (answer.action !== 'accept' || requestedSchema === undefined) return undefined;
    const content = answer.content ?? {};
    if (typeof content !== 'object') return 'content: write an object';
    const missing = (requestedSchema.required ?? []).find((name) => !Object.hasOwn(content, name));
    return missing === undefined ? undefined : `content: ${missing} is missing`;
  },
  'sampling/createMessage': (answer) => (typeof answer.role === 'string' && typeof answer.content === 'object' ? undefined : 'an answer has role and content'),
  'roots/list': (answer) => (Array.isArray(answer.roots) ? undefined : 'roots: write a list'),
};

class Call {
  asked = 0;
  round = 0;
  open = new Map();
  // Answers that came before their questions, and those that were left for the next cell.
  early = {};
  held = {};
  end;
  wake() {}
  // Names of a task's questions: each is of one only.
  names = new Set();
  constructor(id, begun, can, task) {
    this.id = id;
    this.begun = begun;
    this.can = can;
    this.task = task;
  }
  // What came before the task has ended: its client is given the task, and another cell goes on.
  async begins() {
    if (this.task) await new Promise((resolve) => { this.go = resolve; this.wake(); });
  }
  ask(method, capability, { key, ...params }) {
    if (this.end !== undefined) throw failed('NotSupported', 'the call has ended, and its client is not asked any more');
    if (!capability.of(this.can)) {
      const error = failed('NotSupported', `the MCP client that called does not take ${method}: it has not declared the capability ${capability.name}`);
      lacking.set(error, capability.wanted);
      throw error;
    }
    if (this.open.size >= QUESTIONS_MAX) throw refusal(`a call may ask ${QUESTIONS_MAX} questions at once; await some first`);
    this.asked += 1;
    let name = key ?? `question-${this.asked}`;
    if (typeof name !== 'string' || !KEY.test(name)) throw new TypeError('key: write 1 to 64 letters, digits, "_", "-" and "."');
    if (this.open.has(name)) throw new TypeError(`key: ${name} names a question that waits already`);
    while (this.task && this.names.has(name)) name += `.${this.asked}`;
    this.names.add(name);
    // As JSON from here on: what asks may change it.
    const question = JSON.parse(JSON.stringify({ method, params }));
    return new Promise((resolve, reject) => {
      this.open.set(name, { question, number: this.asked, resolve, reject });
      if (Object.hasOwn(this.early, name)) {
        const answer = this.early[name];
        delete this.early[name];
        if (this.fault(name, answer) === undefined) this.answer(name, answer);
      }
      this.wake();
    });
  }
  fault(name, answer) {
    const it = this.open.get(name);
    if (it === undefined) return undefined;
    if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) return `${name}: write an object`;
    if (answer.error !== undefined) return undefined;
    const fault = FAULTS[it.question.method](answer, it.question.params);
    return fault === undefined ? undefined : `${name}: ${fault}`;
  }
  answer(name, answer) {
    const it = this.open.get(name);
    this.open.delete(name);
    if (answer.error !== undefined) it.reject(failed('ToolDenied', `the MCP client refused: ${answer.error?.message ?? 'it does not say why'}`));
    else it.resolve(answer);
  }
  // Takes answers in, all of them or none. Answers what is wrong with them.
  take(answers) {
    for (const [name, answer] of Object.entries(answers)) {
      const fault = this.fault(name, answer);
      if (fault !== undefined) return fault;
    }
    for (const [name, answer] of Object.entries(answers)) if (this.open.has(name)) this.answer(name, answer);
    return undefined;
  }
  give(up, error = 'TimeoutError') {
    calls.delete(this.id);
    for (const name of [...this.open.keys()]) {
      const { reject } = this.open.get(name);
      this.open.delete(name);
      reject(failed(error, up));
    }
  }
  // Goes on until the call ends, asks, or is to be a task.
  async next() {
    for (;;) {
      for (let round = 0; round < ROUNDS; round++) await undefined;
      if (this.end !== undefined) {
        calls.delete(this.id);
        const { error, value } = this.end;
        if (error === undefined) return { end: value };
        const missing = typeof error.thrown === 'object' && error.thrown !== null ? lacking.get(error.thrown) : undefined;
        if (missing === undefined) throw error.thrown;
        return { missing, message: error.thrown.message };
      }
      if (this.open.size > 0) {
        this.round += 1;
        return { round: this.round, asks: Object.fromEntries(Array.from(this.open, ([name, { question, number }]) => [name, { ...question, number }])) };
      }
      if (this.go !== undefined) {
        this.round += 1;
        return { round: this.round, begins: true };
      }
      await new Promise((resolve) => { this.wake = resolve; });
    }
  }
}

const gone = { gone: true, refused: 'no call waits under this state: it has ended, or was answered already; call again' };
// `task`: whether the call is one, or is to be one. Once it is, `hold` brings it answers, and `next` and `cancel` are all else that comes.
const serve = async ({ call: id, round, begin, can, task = false, given = {}, hold, next = false, cancel = false }, run) => {
  let call = calls.get(id);
  if (cancel) {
    call?.give('the MCP client has cancelled the task', 'Interrupted');
    return { cancelled: true };
  }
  if (call === undefined) {
    if (begin === undefined || round !== 0) return gone;
    for (const oldest of calls.values()) {
      if (calls.size < CALLS_MAX) break;
      oldest.give(`the MCP client has not answered, and ${CALLS_MAX} calls came after this one`);
    }
    call = new Call(id, JSON.stringify(begin), can ?? {}, task);
    call.early = given;
    calls.set(id, call);
    const ended = (end) => { call.end = end; call.wake(); };
    current.run(call, async () => run(begin, call)).then((value) => ended({ value }), (thrown) => ended({ error: { thrown } }));
    return call.next();
  }
  if (hold !== undefined) {
    for (const [name, answer] of Object.entries(hold)) {
      const fault = call.fault(name, answer);
      if (fault !== undefined) return { refused: fault };
      if (call.open.has(name)) call.held[name] ??= answer;
    }
    return {};
  }
  if (next) {
    call.take(call.held);
    call.held = {};
    call.go?.();
    call.go = undefined;
    return call.next();
  }
  if ((begin !== undefined && JSON.stringify(begin) !== call.begun) || round !== call.round) return gone;
  const fault = call.take({ ...call.held, ...given });
  call.held = {};
  return fault === undefined ? call.next() : { refused: fault };
};

const asks = (method, capability) => (about = {}) => {
  const call = current.getStore();
  if (call === undefined) throw failed('NotSupported', `no MCP client called this: ${method} is for functions that a client of the session calls`);
  return call.ask(method, capability(about), about);
};
const elicit = asks('elicitation/create', ({ mode = 'form' }) => ({
  name: mode === 'url' ? 'elicitation.url' : 'elicitation',
  wanted: { elicitation: mode === 'url' ? { url: {} } : {} },
  // A client that says no more knows forms.
  of: ({ elicitation }) => elicitation !== undefined && (mode === 'url' ? elicitation.url !== undefined : elicitation.form !== undefined || elicitation.url === undefined),
}));
const sample = asks('sampling/createMessage', ({ tools }) => ({
  name: tools === undefined ? 'sampling' : 'sampling.tools',
  wanted: { sampling: tools === undefined ? {} : { tools: {} } },
  of: ({ sampling }) => sampling !== undefined && (tools === undefined || sampling.tools !== undefined),
}));
const roots = asks('roots/list', () => ({ name: 'roots', wanted: { roots: {} }, of: (can) => can.roots !== undefined }));

module.exports = {
  serve,
  failed,
  refusal,
  elicit: async (about) => elicit(about),
  sample: async (about) => sample(about),
  roots: async (about) => (await roots(about)).roots,
};
