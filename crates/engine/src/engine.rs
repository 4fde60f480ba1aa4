//! The compiled engine, and what it makes an instance of.

use std::{future::Future, path::PathBuf, pin::pin, sync::Arc, task};

use wasmtime::{Extern, ExternType, InstancePre, Memory, Module, ModuleExport, Mutability, Store, StoreLimitsBuilder, Val};

use crate::{
    EngineError, Globals, Growth, HostState, Image, PAGE_BYTES, Page, Settings,
    compiled::{self, Wasm},
    growth::Limits,
    host::Host,
    imports,
    tracking::Base,
};

/// Linear memory beyond base image and heap limit, in bytes: fragmentation, the stack, a turn's input.
const MEMORY_SLACK_BYTES: u64 = 96 << 20;
/// Largest heap limit in bytes: what fits a 32-bit memory with its slack.
const HEAP_BYTES_MAX: u64 = 3 << 30;
/// Pages of a [`Page`](crate::Page) in one page of WebAssembly.
const PAGES_PER_WASM_PAGE: u32 = 16;

/// How an engine is loaded.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// Keeps compiled code in this directory, so that the next process starts faster: compiling takes seconds of every core. The directory and
    /// its files must belong to this process's user or to root, and be writable by no one else: what lies there is run as native code. `None`:
    /// compile at every start.
    pub cache_dir: Option<PathBuf>,
    /// Asked before the memory of an instance grows. `None`: only the instance's own limit counts.
    pub growth: Option<Arc<dyn Growth>>,
}

impl EngineOptions {
    /// Keeps compiled code where programs of this user keep what can be made again: in `dormouse/engine` below `$XDG_CACHE_HOME`, or below
    /// `$HOME/.cache` (XDG Base Directory Specification 0.8: relative paths are ignored). Without either, nothing is kept.
    #[must_use]
    pub fn for_user() -> Self {
        Self { cache_dir: users_cache(|name| std::env::var_os(name).map(PathBuf::from)), ..Self::default() }
    }
}

/// Where these variables say that a user's compiled code is.
fn users_cache(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("dormouse/engine"))
}

/// sha256 of `engine.wasm`, in hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EngineDigest(String);

impl EngineDigest {
    /// The 64 hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for EngineDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The compiled engine. Cloning shares it.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    digest: EngineDigest,
    wasmtime: wasmtime::Engine,
    pre: InstancePre<Host>,
    exports: Exports,
    base: Base,
    globals: Globals,
    growth: Option<Arc<dyn Growth>>,
}

/// Where the module's exports are, so that making an instance compares no names.
pub(crate) struct Exports {
    pub(crate) memory: ModuleExport,
    pub(crate) eval: ModuleExport,
    pub(crate) deliver: ModuleExport,
    pub(crate) abandon: ModuleExport,
    /// The mutable globals.
    pub(crate) globals: Vec<(String, ModuleExport)>,
}

impl Exports {
    fn of(module: &Module) -> Result<Self, EngineError> {
        let export = |name: &str| module.get_export_index(name).ok_or_else(|| EngineError::Load(format!("no export {name}")));
        let mutable = |ty: ExternType| matches!(ty, ExternType::Global(global) if global.mutability() == Mutability::Var);
        let names = module.exports().filter(|found| mutable(found.ty())).map(|found| found.name().to_owned());
        Ok(Self {
            memory: export("memory")?,
            eval: export("eval")?,
            deliver: export("deliver")?,
            abandon: export("abandon")?,
            globals: names.map(|name| export(&name).map(|index| (name, index))).collect::<Result<_, _>>()?,
        })
    }
}

/// The module, instantiated: what becomes an [`Instance`](crate::Instance), and has run nothing.
pub(crate) struct Instantiated {
    pub(crate) store: Store<Host>,
    pub(crate) instance: wasmtime::Instance,
    pub(crate) memory: Memory,
    pub(crate) globals: MutableGlobals,
    /// Limit of the JavaScript heap in bytes.
    pub(crate) heap_limit: u64,
    pub(crate) memory_bytes_max: usize,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("digest", &self.0.digest).finish_non_exhaustive()
    }
}

impl Engine {
    /// Compiles `engine.wasm`, which takes about a second of every core.
    ///
    /// # Errors
    /// [`EngineError::Load`] when it cannot be compiled or linked, or when the cache is not to be trusted.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        Self::load(&compiled::CURRENT, &options)
    }

    /// An engine of another module with the exports of `engine.wasm`, which sessions never run: what a guest that means harm can do to the host is
    /// tested with it.
    ///
    /// # Errors
    /// [`EngineError::Load`] when it cannot be compiled or linked, or lacks an export.
    pub fn of_module(wasm: &[u8]) -> Result<Self, EngineError> {
        Self::load(&Wasm { prefix: "", bytes: wasm }, &EngineOptions::default())
    }

    /// The current engine under another digest for each number: what earlier ones are where upgrades are tested.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn twin(number: u8) -> Result<Self, EngineError> {
        // A custom section of this name, with the number in it.
        const TWIN: &[u8] = b"\0\x06\x04twin";
        Self::of_module(&[compiled::CURRENT.bytes, TWIN, &[number]].concat())
    }

    pub(crate) fn load(wasm: &Wasm<'_>, options: &EngineOptions) -> Result<Self, EngineError> {
        let load = |error: wasmtime::Error| EngineError::Load(format!("{error:#}"));
        let digest = wasm.digest();
        let wasmtime = wasmtime::Engine::new(&compiled::config()).map_err(load)?;
        let module = compiled::module(&wasmtime, wasm, &digest, options.cache_dir.as_deref())?;
        let exports = Exports::of(&module)?;
        let pre = imports::linker(&wasmtime).and_then(|linker| linker.instantiate_pre(&module)).map_err(load)?;
        let mut store = Store::new(&wasmtime, Host::new(None, Limits::new(StoreLimitsBuilder::new().build(), None), HostState::default()));
        let instance = now(pre.instantiate_async(&mut store))?.map_err(load)?;
        let memory = memory(&instance, &mut store, &exports)?;
        let base = Base::new(memory.data(&store));
        let globals = globals(&mutable_globals(&instance, &mut store, &exports), &mut store)?;
        let growth = options.growth.clone();
        Ok(Self(Arc::new(Inner { digest: EngineDigest(digest), wasmtime, pre, exports, base, globals, growth })))
    }

    /// sha256 of `engine.wasm`.
    #[must_use]
    pub fn digest(&self) -> &EngineDigest {
        &self.0.digest
    }

    /// Instantiates the module.
    ///
    /// # Errors
    /// [`EngineError::Create`] when the process has no room for one more.
    pub(crate) fn instantiate(&self, settings: &Settings) -> Result<Instantiated, EngineError> {
        let create = |error: wasmtime::Error| EngineError::Create(format!("{error:#}"));
        let inner = &self.0;
        let heap_limit = settings.heap_bytes.min(HEAP_BYTES_MAX);
        let memory_bytes =
            ((inner.base.pages() * PAGE_BYTES) as u64 + heap_limit + heap_limit / 4 + MEMORY_SLACK_BYTES).min(u64::from(u32::MAX));
        let memory_bytes_max = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        let limits = StoreLimitsBuilder::new().memory_size(memory_bytes_max).build();
        let limits = Limits::new(limits, inner.growth.clone());
        let mut store = Store::new(&inner.wasmtime, Host::new(settings.determinism, limits, HostState::default()));
        store.limiter(|host| &mut host.limits);
        let instance = now(inner.pre.instantiate_async(&mut store))?.map_err(create)?;
        let memory = memory(&instance, &mut store, &inner.exports)?;
        store.data_mut().memory = Some(memory);
        let globals = mutable_globals(&instance, &mut store, &inner.exports);
        Ok(Instantiated { store, instance, memory, globals, heap_limit, memory_bytes_max })
    }

    /// What lies in memory where a page is stored as this difference to the base image: for whoever looks at what is stored.
    #[must_use]
    pub fn content(&self, number: u32, difference: &[u8; PAGE_BYTES]) -> Page {
        self.0.base.content(number, difference)
    }

    /// Whether an image can be one of this engine.
    ///
    /// # Errors
    /// [`EngineError::Image`] when it cannot.
    pub(crate) fn check(&self, image: &Image) -> Result<(), EngineError> {
        let invalid = |why: &str| Err(EngineError::Image(why.to_owned()));
        let base_pages = self.0.base.pages();
        if (image.memory_pages as usize) < base_pages || !image.memory_pages.is_multiple_of(PAGES_PER_WASM_PAGE) {
            return invalid("the memory's size is impossible");
        }
        if image.globals != self.0.globals {
            return invalid("the globals are not those of a cell boundary");
        }
        if image.pages.last_key_value().is_some_and(|(number, _)| *number >= image.memory_pages) {
            return invalid("a page lies outside the memory");
        }
        Ok(())
    }

    pub(crate) fn base(&self) -> &Base {
        &self.0.base
    }

    /// The globals of a cell boundary.
    pub(crate) fn globals(&self) -> &Globals {
        &self.0.globals
    }

    pub(crate) fn exports(&self) -> &Exports {
        &self.0.exports
    }
}

fn memory(instance: &wasmtime::Instance, store: &mut Store<Host>, exports: &Exports) -> Result<Memory, EngineError> {
    let found = instance.get_module_export(&mut *store, &exports.memory).and_then(Extern::into_memory);
    found.ok_or_else(|| EngineError::Create("no memory".to_owned()))
}

/// All mutable globals.
pub(crate) type MutableGlobals = Vec<(String, wasmtime::Global)>;

fn mutable_globals(instance: &wasmtime::Instance, store: &mut Store<Host>, exports: &Exports) -> MutableGlobals {
    let mut find = |index| instance.get_module_export(&mut *store, index).and_then(Extern::into_global);
    exports.globals.iter().filter_map(|(name, index)| Some((name.clone(), find(index)?))).collect()
}

/// The values of globals, as raw bits.
fn globals(globals: &MutableGlobals, store: &mut Store<Host>) -> Result<Globals, EngineError> {
    globals.iter().map(|(name, global)| Ok((name.clone(), raw_bits(name, *global, store)?))).collect()
}

/// The value of one, as raw bits.
pub(crate) fn raw_bits(name: &str, global: wasmtime::Global, store: &mut Store<Host>) -> Result<u64, EngineError> {
    match global.get(store) {
        #[expect(clippy::cast_sign_loss, reason = "raw bits")]
        Val::I32(value) => Ok(u64::from(value as u32)),
        #[expect(clippy::cast_sign_loss, reason = "raw bits")]
        Val::I64(value) => Ok(value as u64),
        _ => Err(EngineError::Load(format!("the global {name} is no integer"))),
    }
}

/// The result of a future that never waits: the module has no start function, so nothing in making an instance can.
fn now<T>(future: impl Future<Output = T>) -> Result<T, EngineError> {
    match pin!(future).poll(&mut task::Context::from_waker(task::Waker::noop())) {
        task::Poll::Ready(value) => Ok(value),
        task::Poll::Pending => Err(EngineError::Create("making an instance had to wait".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_user_has_compiled_code_where_caches_are() {
        let found = |xdg: &'static str, home: &'static str| {
            let value = move |name: &str| Some(PathBuf::from(if name == "HOME" { home } else { xdg })).filter(|path| path != Path::new(""));
            users_cache(value).map(|path| path.display().to_string())
        };
        assert_eq!(found("/x", "/home/a").as_deref(), Some("/x/dormouse/engine"));
        assert_eq!(found("", "/home/a").as_deref(), Some("/home/a/.cache/dormouse/engine"));
        assert_eq!(found("x", "/home/a").as_deref(), Some("/home/a/.cache/dormouse/engine"), "relative paths are ignored");
        assert_eq!(found("", ""), None);
    }
}
