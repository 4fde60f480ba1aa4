// Who watches the session's volume hears of each change there; no timer waits while nothing happens.
const { core } = require('web/volume');
const { CHANGES: { CREATE, DELETE, MOVE }, numberOf } = require('web/fs-calls');
const { encoded, linkAt, nodeAt } = require('web/fs-paths');
const { binding, fieldsOf, shaped } = require('web/fs-binding');

const pathOf = (steps) => steps.join('/');
class FSEvent {
  #end;
  initialized = false;
  getAsyncId() { return 0; }
  ref() {}
  unref() {}
  start(path, persistent, recursive, encoding) {
    let watched;
    try {
      watched = linkAt(path, true);
    } catch (error) {
      return numberOf(error);
    }
    const hear = (kind, steps) => {
      const [base, at] = [pathOf(watched.steps), pathOf(steps)];
      const name = at === base ? watched.getName() : at.startsWith(`${base}/`) ? at.slice(base.length + 1) : undefined;
      if (name === undefined || (at !== base && !recursive && name.includes('/'))) return;
      queueMicrotask(() => { if (this.initialized) this.onchange(0, kind, encoded(name, encoding)); });
    };
    this.#end = core.changes.listen(({ type, steps, oldSteps }) => {
      const kind = type === CREATE || type === DELETE || type === MOVE ? 'rename' : 'change';
      if (oldSteps !== undefined) hear(kind, oldSteps);
      hear(kind, steps);
    });
    this.initialized = true;
    return 0;
  }
  close() {
    if (this.initialized) this.#end();
    this.initialized = false;
  }
}

const nothing = new Array(binding.kFsStatsFieldsNumber).fill(0);
class StatWatcher {
  #big;
  #path;
  #interval;
  #known;
  #end;
  #timer;
  constructor(big) { this.#big = big; }
  getAsyncId() { return 0; }
  ref() {}
  unref() {}
  #now() {
    try {
      return { status: 0, fields: fieldsOf(nodeAt(this.#path)) };
    } catch (error) {
      return { status: numberOf(error), fields: nothing };
    }
  }
  #tell({ status, fields }, before) {
    this.onchange(status, shaped([...fields, ...before], this.#big));
  }
  start(path, interval) {
    [this.#path, this.#interval] = [path, interval];
    const first = this.#now();
    this.#known = first.fields;
    // One that is not there is told once.
    if (first.status !== 0) queueMicrotask(() => this.#tell(first, nothing));
    this.#end = core.changes.listen(() => { this.#timer ??= setTimeout(() => this.#look(), this.#interval); });
    return 0;
  }
  #look() {
    this.#timer = undefined;
    const [now, before] = [this.#now(), this.#known];
    // That it was read is no change.
    if (now.fields.every((field, at) => field === before[at] || at === 10 || at === 11)) return;
    this.#known = now.fields;
    this.#tell(now, before);
  }
  close() {
    this.#end();
    clearTimeout(this.#timer);
  }
}

module.exports = { FSEvent, StatWatcher };
