// Globals that a script of Node finds: a cell is like a module that nobody requires.
const own = { id: '.', path: '/', exports: {}, filename: '/cell', loaded: false, children: [], paths: [] };
module.exports = { process: require('web/process'), module: own, exports: own.exports, __filename: own.filename, __dirname: own.path, $importMeta: { __proto__: null, dirname: '/', filename: '/cell', url: 'file:///cell', resolve: (name) => (name.startsWith('.') || name.startsWith('/') ? new URL(name, 'file:///cell').href : name) } };
