// What test/common is to Node's own tests, in a few lines, the same for both sides. `__report` says after the end what was not called.
{
  const real = globalThis.require;
  const assert = real('assert');
  const waits = [];
  const counted = (work, most, least) => {
    'use strict';
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
  globalThis.require = Object.assign((name) => (/^(\.\.\/)+common(\/index(\.js)?)?$/.test(name) ? common : real(name)), { main: undefined, resolve: (name) => name });
  globalThis.__report = () => {
    const missed = waits.filter((wait) => wait.calls < wait.least || wait.calls > wait.most);
    console.log(`RESULT ${JSON.stringify({ name: '', ok: missed.length === 0, why: missed.length === 0 ? '' : `${missed.length} functions were not called as often as they must be` })}`);
  };
}
