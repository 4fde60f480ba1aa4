// What objects of the web show, as Node has it: the name of their kind, and these of their members, or what is made of them.
const custom = Symbol.for('nodejs.util.inspect.custom');
const shows = (Kind, name, shown) => Object.defineProperty(Kind.prototype, custom, {
  value(depth, options, inspect) {
    if (depth < 0) return `[${name}]`;
    let members = {};
    // A prototype has none of its own.
    try {
      if (typeof shown === 'function') members = shown(this);
      else for (const key of shown) members[key] = this[key];
    } catch { return `${name} {}`; }
    return `${name} ${inspect(members, { ...options, depth: Math.max(options.depth ?? 2, 1) })}`;
  },
  writable: true, configurable: true,
});
// As Node shows what is an object of its own: one level less is left for the members.
const showsMembers = (Kind, members, whole) => Object.defineProperty(Kind.prototype, custom, {
  value(depth, options, inspect) {
    if (depth < 0) return whole ?? this;
    return `${this.constructor.name} ${inspect(members(this), { ...options, depth: options.depth === null ? null : options.depth - 1 })}`;
  },
  writable: true, configurable: true,
});
module.exports = { shows, showsMembers };
