// Named channels: who publishes, and who listens.
const channels = new Map();
const coded = (message) => Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_TYPE' });

class Channel {
  #subscribers = [];
  constructor(name) { this.name = name; }
  get hasSubscribers() { return this.#subscribers.length > 0; }
  subscribe(listener) {
    if (typeof listener !== 'function') throw coded('The "subscription" argument must be of type function.');
    this.#subscribers = [...this.#subscribers, listener];
  }
  unsubscribe(listener) {
    const at = this.#subscribers.indexOf(listener);
    if (at < 0) return false;
    this.#subscribers = this.#subscribers.toSpliced(at, 1);
    return true;
  }
  publish(message) {
    for (const listener of this.#subscribers) {
      try {
        listener(message, this.name);
      } catch (error) {
        queueMicrotask(() => { throw error; });
      }
    }
  }
}
const channel = (name) => {
  if (typeof name !== 'string' && typeof name !== 'symbol') throw coded('The "channel" argument must be of type string or symbol.');
  if (!channels.has(name)) channels.set(name, new Channel(name));
  return channels.get(name);
};
module.exports = {
  Channel, channel,
  hasSubscribers: (name) => channels.get(name)?.hasSubscribers ?? false,
  subscribe: (name, listener) => channel(name).subscribe(listener),
  unsubscribe: (name, listener) => channels.get(name)?.unsubscribe(listener) ?? false,
};
