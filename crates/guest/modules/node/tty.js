// A session has no terminal.
class ReadStream {
  constructor() { throw Object.assign(new Error('a session has no terminal'), { code: 'ERR_INVALID_FD' }); }
}
class WriteStream {
  constructor() { throw Object.assign(new Error('a session has no terminal; write to process.stdout'), { code: 'ERR_INVALID_FD' }); }
}
module.exports = { isatty: () => false, ReadStream, WriteStream };
