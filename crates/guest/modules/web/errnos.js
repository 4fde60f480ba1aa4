// Errors of the system that Node knows by number, name and text.
const table = [
  [-2, 'ENOENT', 'no such file or directory'], [-1, 'EPERM', 'operation not permitted'], [-5, 'EIO', 'i/o error'], [-9, 'EBADF', 'bad file descriptor'], [-11, 'EAGAIN', 'resource temporarily unavailable'],
  [-12, 'ENOMEM', 'not enough memory'], [-13, 'EACCES', 'permission denied'], [-16, 'EBUSY', 'resource busy or locked'], [-17, 'EEXIST', 'file already exists'], [-18, 'EXDEV', 'cross-device link not permitted'],
  [-20, 'ENOTDIR', 'not a directory'], [-21, 'EISDIR', 'illegal operation on a directory'], [-22, 'EINVAL', 'invalid argument'], [-23, 'ENFILE', 'file table overflow'], [-24, 'EMFILE', 'too many open files'],
  [-27, 'EFBIG', 'file too large'], [-28, 'ENOSPC', 'no space left on device'], [-29, 'ESPIPE', 'invalid seek'], [-30, 'EROFS', 'read-only file system'], [-32, 'EPIPE', 'broken pipe'], [-36, 'ENAMETOOLONG', 'name too long'],
  [-39, 'ENOTEMPTY', 'directory not empty'], [-40, 'ELOOP', 'too many symbolic links encountered'], [-98, 'EADDRINUSE', 'address already in use'], [-104, 'ECONNRESET', 'connection reset by peer'],
  [-110, 'ETIMEDOUT', 'connection timed out'], [-111, 'ECONNREFUSED', 'connection refused'], [-4095, 'EOF', 'end of file'],
];
module.exports = { byNumber: new Map(table.map(([number, name, text]) => [number, [name, text]])) };
