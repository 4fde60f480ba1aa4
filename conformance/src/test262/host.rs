//! What the suite expects of its host, as far as a script alone can give it; the same for both engines.

/// Defines `$262`. There is no second realm and no agent: tests that need one fail in both engines.
pub(super) const SCRIPT: &str = "
var $262 = (() => {
  const indirect = eval;
  const absent = (what) => () => { throw new Error(what + ' is not there'); };
  return {
    global: globalThis,
    gc() {},
    detachArrayBuffer(buffer) { buffer.transfer(); return null; },
    evalScript(code) { return indirect(code); },
    createRealm: absent('a second realm'),
    AbstractModuleSource: absent('a module source'),
    agent: { start: absent('an agent'), broadcast: absent('an agent'), getReport: absent('an agent'), sleep: absent('an agent'), monotonicNow: absent('an agent') },
  };
})();
";

/// The line that an asynchronous test prints when it is done.
pub(super) const DONE: &str = "Test262:AsyncTestComplete";

/// How a script ended, before it is judged.
#[derive(Debug, Default)]
pub(super) struct End {
    /// Name and message of what it threw.
    pub(super) thrown: Option<(String, String)>,
    /// What it printed.
    pub(super) printed: String,
}
