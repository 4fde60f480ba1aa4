//! What the guest may call: the host's functions, which read and write what it names of its memory.

mod blobs;

use wasmtime::{Caller, Extern, Linker};

use crate::{host::Host, message::Kind, slice::SliceEnd};

/// The imports of `engine.wasm`.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<Host>> {
    let mut linker = Linker::new(engine);
    linker.func_wrap("env", "__rquickjs_host_now_us", |caller: Caller<'_, Host>| caller.data().now_ms() * 1000.0)?;
    linker.func_wrap("host", "stopped", |caller: Caller<'_, Host>| i32::from(caller.data().stop.is_some()))?;
    linker.func_wrap("host", "input", |mut caller: Caller<'_, Host>, at: u32, len: u32| -> wasmtime::Result<()> {
        let input = caller.data_mut().take_input();
        let to = guest(&mut caller, at, len)?;
        if to.len() != input.len() {
            return Err(wasmtime::Error::msg("the guest asked for an input of another size"));
        }
        to.copy_from_slice(&input);
        Ok(())
    })?;
    linker.func_wrap("host", "entropy", |mut caller: Caller<'_, Host>, at: u32, len: u32| -> wasmtime::Result<()> {
        let mut bytes = vec![0; guest(&mut caller, at, len)?.len()];
        caller.data_mut().entropy(&mut bytes);
        guest(&mut caller, at, len)?.copy_from_slice(&bytes);
        Ok(())
    })?;
    linker.func_wrap("host", "emit", |mut caller: Caller<'_, Host>, kind: i32, at: u32, len: u32| -> wasmtime::Result<i32> {
        let kind = Kind::from_number(kind).ok_or_else(|| wasmtime::Error::msg("a message of an unknown kind"))?;
        let bytes = guest(&mut caller, at, len)?.to_vec();
        Ok(i32::from(!caller.data_mut().told(kind, &bytes)))
    })?;
    linker.func_wrap_async("host", "interrupt", |mut caller: Caller<'_, Host>, (): ()| {
        Box::new(async move {
            let stop = caller.data_mut().tick();
            let_others_run(&mut caller).await;
            i32::from(stop)
        })
    })?;
    linker.func_wrap_async("host", "poll", |mut caller: Caller<'_, Host>, (): ()| {
        Box::new(async move {
            if caller.data_mut().overran() {
                return Err(wasmtime::Error::msg("the turn is over its time"));
            }
            let_others_run(&mut caller).await;
            Ok(())
        })
    })?;
    blobs::link(&mut linker)?;
    Ok(linker)
}

/// A range of the guest's memory.
fn guest<'a>(caller: &'a mut Caller<'_, Host>, at: u32, len: u32) -> wasmtime::Result<&'a mut [u8]> {
    let memory = match caller.data().memory {
        Some(memory) => memory,
        None => caller.get_export("memory").and_then(Extern::into_memory).ok_or_else(|| wasmtime::Error::msg("no memory"))?,
    };
    let range = at as usize..at as usize + len as usize;
    memory.data_mut(caller).get_mut(range).ok_or_else(|| wasmtime::Error::msg("the guest named memory that it does not have"))
}

/// Yields if the code has used its slice. The code stands at a poll: nothing is half done.
async fn let_others_run(caller: &mut Caller<'_, Host>) {
    if caller.data().slice_over() {
        caller.data_mut().pause();
        SliceEnd::default().await;
        caller.data_mut().resume();
    }
}
