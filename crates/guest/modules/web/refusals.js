// What Node has and a sandbox will not, and what to use instead.
const SERVER = 'a session takes no connections; what is outside calls its cells';
const REFUSED = {
  child_process: 'a session starts no processes; call a tool', worker_threads: 'a session has one thread; start another session', cluster: 'a session has one thread; start another session',
  net: `${SERVER}; use fetch or a tool`, tls: `${SERVER}; use fetch or a tool`, dgram: `${SERVER}; use fetch or a tool`, http2: `${SERVER}; use fetch`,
  dns: 'names are resolved outside; use fetch or a tool',
  vm: 'cells share one realm; use eval or another session', v8: 'the engine is not V8; use structuredClone to copy', wasi: 'WebAssembly is not there; call a tool',
  inspector: 'the engine has no inspector; use console', repl: 'the session is one: send it cells',
  trace_events: 'the engine has no traces; use console',
  module: 'use require or import', domain: 'use try and catch', punycode: 'use url.domainToASCII', test: 'use assert', sqlite: 'call a tool',
};
// The error of asking for one, or nothing.
module.exports = (name, code) => {
  const bare = name.startsWith('node:') ? name.slice('node:'.length) : name;
  const why = Object.hasOwn(REFUSED, bare.split('/')[0]) ? REFUSED[bare.split('/')[0]] : undefined;
  if (why === undefined) return undefined;
  return Object.assign(new Error(`Cannot find module '${name}': ${why}`), { code });
};
