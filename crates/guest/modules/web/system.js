// Node's `os` binding: numbers of Linux, and a system that says nothing of itself.
const signals = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGILL: 4, SIGTRAP: 5, SIGABRT: 6, SIGBUS: 7, SIGFPE: 8, SIGKILL: 9, SIGUSR1: 10, SIGSEGV: 11, SIGUSR2: 12, SIGPIPE: 13, SIGALRM: 14, SIGTERM: 15 };
const errno = { E2BIG: 7, EACCES: 13, EADDRINUSE: 98, EAGAIN: 11, EBADF: 9, ECONNREFUSED: 111, ECONNRESET: 104, EEXIST: 17, EINVAL: 22, EIO: 5, EISDIR: 21, EMFILE: 24, ENOENT: 2, ENOMEM: 12, ENOSPC: 28, ENOTDIR: 20, ENOTEMPTY: 39, EPERM: 1, EPIPE: 32, ETIMEDOUT: 110 };
const priority = { PRIORITY_LOW: 19, PRIORITY_BELOW_NORMAL: 10, PRIORITY_NORMAL: 0, PRIORITY_ABOVE_NORMAL: -7, PRIORITY_HIGH: -14, PRIORITY_HIGHEST: -20 };
let nice = 0;
// There is one process, by its number or as 0.
const ESRCH = -3;
const isOwn = (pid) => pid === 0 || pid === 1;
const unknown = (context, syscall) => { Object.assign(context, { errno: ESRCH, code: 'ESRCH', message: 'no such process', syscall }); };
const user = { uid: 1000, gid: 1000, username: 'session', homedir: '/root', shell: null };
const binding = {
  getAvailableParallelism: () => 1, getCPUs: () => [], getFreeMem: () => 0, getTotalMem: () => 0, getHomeDirectory: () => '/root', getHostname: () => 'localhost',
  getInterfaceAddresses: () => [], getLoadAvg() {}, getOSInformation: () => ['Linux', '#1', '6.0.0', 'x86_64'], getUptime: () => performance.now() / 1000, isBigEndian: false,
  getUserInfo: (options) => (options?.encoding === 'buffer' ? Object.fromEntries(Object.entries(user).map(([key, value]) => [key, typeof value === 'string' ? Buffer.from(value) : value])) : { ...user }),
  getPriority: (pid, context) => (isOwn(pid) ? nice : unknown(context, 'uv_os_getpriority')),
  setPriority: (pid, priority, context) => {
    if (!isOwn(pid)) return unknown(context, 'uv_os_setpriority') ?? ESRCH;
    nice = priority;
    return 0;
  },
};
module.exports = { constants: { signals, errno, priority, dlopen: {}, UV_UDP_REUSEADDR: 4 }, binding };
