// What a session says of its system: nothing of the machine's own.
const signals = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGILL: 4, SIGTRAP: 5, SIGABRT: 6, SIGBUS: 7, SIGFPE: 8, SIGKILL: 9, SIGUSR1: 10, SIGSEGV: 11, SIGUSR2: 12, SIGPIPE: 13, SIGALRM: 14, SIGTERM: 15 };
const errno = { E2BIG: 7, EACCES: 13, EADDRINUSE: 98, EAGAIN: 11, EBADF: 9, ECONNREFUSED: 111, ECONNRESET: 104, EEXIST: 17, EINVAL: 22, EIO: 5, EISDIR: 21, EMFILE: 24, ENOENT: 2, ENOMEM: 12, ENOSPC: 28, ENOTDIR: 20, ENOTEMPTY: 39, EPERM: 1, EPIPE: 32, ETIMEDOUT: 110 };
const priority = { PRIORITY_LOW: 19, PRIORITY_BELOW_NORMAL: 10, PRIORITY_NORMAL: 0, PRIORITY_ABOVE_NORMAL: -7, PRIORITY_HIGH: -14, PRIORITY_HIGHEST: -20 };
module.exports = {
  EOL: '\n', devNull: '/dev/null', constants: { signals, errno, priority, dlopen: {}, UV_UDP_REUSEADDR: 4 },
  arch: () => 'x64', platform: () => 'linux', type: () => 'Linux', machine: () => 'x86_64', release: () => '6.0.0', version: () => '#1', endianness: () => 'LE',
  hostname: () => 'localhost', homedir: () => '/root', tmpdir: () => '/tmp',
  cpus: () => [], availableParallelism: () => 1, loadavg: () => [0, 0, 0], networkInterfaces: () => ({}),
  totalmem: () => 0, freemem: () => 0, uptime: () => performance.now() / 1000,
  userInfo: () => ({ uid: 1000, gid: 1000, username: 'session', homedir: '/root', shell: null }),
  getPriority: () => 0, setPriority: () => {},
};
