// Node's own methods of `process`: how they check what they are given. What they would ask the system, nobody answers.
const { hrtime, assert, wrapProcessMethods } = require('lib/internal/process/per_thread');

const { notThere } = require('web/absent');

const EINVAL = -22;
const SIGNALS_MAX = 64;
const { cpuUsage, kill, resourceUsage } = wrapProcessMethods({ cpuUsage() {}, resourceUsage() {} });
// A session has no process to send a signal to; whether there is such a signal is said first.
const send = (signal) => {
  if (signal < 0 || signal > SIGNALS_MAX) return EINVAL;
  throw notThere('process.kill', 'a session has no other processes');
};
module.exports = { hrtime, assert, cpuUsage, kill, resourceUsage, send };
