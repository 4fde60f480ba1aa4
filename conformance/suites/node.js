// What test/common is to Node's own tests, in a few lines, the same for both sides. `__report` says after the end what was not called.
// `__test` has the test's place (`root`), its name and text, the fixtures that it names (base64 by path) and the helpers of the copy that it asks for.
(() => {
  'use strict';
  const real = globalThis.require;
  const assert = real('assert');
  const fs = real('fs');
  const path = real('path');
  const { root, name, text, fixtures, helpers } = globalThis.__test;
  const place = (...parts) => path.join(root, 'test', ...parts);
  for (const [file, content] of [[place('parallel', `${name}.js`), Buffer.from(text)], ...Object.entries(fixtures).map(([file, content]) => [place('fixtures', file), Buffer.from(content, 'base64')])]) {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, content);
  }
  const waits = [];
  const counted = (work, most, least) => {
    const wait = { least, most, calls: 0 };
    waits.push(wait);
    return function (...args) {
      wait.calls += 1;
      return work?.apply(this, args);
    };
  };
  const common = {
    isWindows: false, isMacOS: false, isLinux: true, isOSX: false, isAIX: false, isIBMi: false, isSunOS: false, isFreeBSD: false, isOpenBSD: false, isMainThread: true, isDebug: false,
    hasCrypto: true, hasIntl: false, hasOpenSSL3: true, hasFipsCrypto: false, enoughTestMem: false, PORT: 12346, localhostIPv4: '127.0.0.1', buildType: 'Release',
    mustCall: (work, times = 1) => (typeof work === 'number' ? counted(undefined, work, work) : counted(work, times, times)),
    mustCallAtLeast: (work, times = 1) => counted(work, Infinity, times),
    mustSucceed: (work, times = 1) => counted(function (error, ...args) { assert.ifError(error); return work?.apply(this, args); }, times, times),
    mustNotCall: (message) => () => { throw new Error(message ?? 'must not be called'); },
    mustNotMutateObjectDeep: (object) => object,
    expectsError: (expected, times = 1) => counted((...args) => { assert.throws(() => { throw args[0]; }, expected); }, times, times),
    expectWarning: () => {}, allowGlobals: () => {}, disableCrashOnUnhandledRejection: () => {}, skipIfInspectorDisabled: () => {}, platformTimeout: (ms) => ms,
    skip: (why) => { throw Object.assign(new Error(why), { skipped: true }); },
    canCreateSymLink: () => true, hasMultiLocalhost: () => false, hasIPv6: false, localIPv6Hosts: [], inFreeBSDJail: false, opensslCli: false, isDumbTerminal: false, isInsideDirWithUnusualChars: false,
    createZeroFilledFile(file) {
      const fd = fs.openSync(file, 'w');
      fs.ftruncateSync(fd, 10 * 1024 * 1024);
      fs.closeSync(fd);
    },
    runWithInvalidFD(work) {
      let fd = 1 << 30;
      try {
        while (fs.fstatSync(fd--) && fd > 0);
      } catch {
        return work(fd);
      }
    },
    printSkipMessage: () => {}, getArrayBufferViews: (buffer) => [Int8Array, Uint8Array, Uint16Array, DataView].map((View) => new View(buffer.buffer, buffer.byteOffset, buffer.byteLength / (View.BYTES_PER_ELEMENT ?? 1))),
    getBufferSources: (buffer) => [...common.getArrayBufferViews(buffer), new Uint8Array(buffer).buffer],
    invalidArgTypeHelper(input) {
      if (input === null || input === undefined) return ` Received ${input}`;
      if (typeof input === 'function') return ` Received function ${input.name}`;
      if (typeof input === 'object') return input.constructor?.name ? ` Received an instance of ${input.constructor.name}` : ` Received ${real('util').inspect(input, { depth: -1 })}`;
      const shown = real('util').inspect(input, { colors: false });
      return ` Received type ${typeof input} (${shown.length > 28 ? `${shown.slice(0, 25)}...` : shown})`;
    },
  };
  const tmpdir = {
    path: place('.tmp.0'),
    refresh() {
      fs.rmSync(tmpdir.path, { recursive: true, force: true });
      fs.mkdirSync(tmpdir.path, { recursive: true });
    },
    resolve: (...parts) => path.resolve(tmpdir.path, ...parts),
    fileURL: (...parts) => real('url').pathToFileURL(tmpdir.resolve(...parts)),
    hasEnoughSpace: () => true,
  };
  const ours = { index: common, tmpdir };
  const HELPER = /^(?:\.\.?\/)+(?:common\/?)?(index|[\w-]*)(?:\.js)?$/;
  const evaluate = (source, file) => {
    const module = { exports: {} };
    (0, eval)(`(function (exports, module, require, __filename, __dirname) {${source}\n})`)(module.exports, module, load, file, path.dirname(file));
    return module.exports;
  };
  // A fixture that is a module.
  const isFile = (asked) => /^\.{0,2}\//.test(asked) && fs.existsSync(path.resolve(place('parallel'), asked));
  const loadFile = (file) => (file.endsWith('.json') ? JSON.parse(fs.readFileSync(file, 'utf8')) : evaluate(fs.readFileSync(file, 'utf8'), file));
  const load = Object.assign((asked) => {
    const found = HELPER.exec(asked);
    const helper = found?.[1] || 'index';
    if (found === null || !(helper in ours || helper in helpers)) return isFile(asked) ? loadFile(path.resolve(place('parallel'), asked)) : real(asked);
    return (ours[helper] ??= evaluate(helpers[helper], place('common', `${helper}.js`)));
  }, { main: undefined, resolve: (asked) => asked });
  globalThis.require = load;
  globalThis.__report = () => {
    const missed = waits.filter((wait) => wait.calls < wait.least || wait.calls > wait.most);
    console.log(`RESULT ${JSON.stringify({ name: '', ok: missed.length === 0, why: missed.length === 0 ? '' : `${missed.length} functions were not called as often as they must be` })}`);
  };
})();
