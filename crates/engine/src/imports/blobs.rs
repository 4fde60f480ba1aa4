//! The guest's calls for contents outside the heap.
//!
//! A call may wait for them: the turn is suspended as it is for other sessions' sake, and nothing of the memory changes meanwhile but
//! what the answer fills in. No boundary lies inside a turn, so what a snapshot sees is a call that was answered or was never made.

use wasmtime::{Caller, Linker};

use super::guest;
use crate::{
    blobs::{BlobError, Blobs},
    host::Host,
};

/// Bytes that are handed over at once.
const CHUNK_BYTES: u32 = 1 << 20;

/// What the guest reads for a content that is not there.
const NOTHING: f64 = -1.0;

/// What the guest asks, by its numbers.
#[derive(Debug, Clone, Copy)]
enum Verb {
    Stat,
    Read,
    Put,
    Append,
    Remove,
    List,
    Package,
    Copy,
}

impl Verb {
    fn from_number(number: i32) -> Option<Self> {
        let all = [Self::Stat, Self::Read, Self::Put, Self::Append, Self::Remove, Self::List, Self::Package, Self::Copy];
        all.get(usize::try_from(number).ok()?).copied()
    }
}

/// A call as the guest makes it.
type Parameters = (i32, u32, u32, f64, u32, u32);

/// Adds the import.
pub(crate) fn link(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    linker.func_wrap_async("host", "blob", |mut caller: Caller<'_, Host>, parameters: Parameters| {
        Box::new(async move {
            caller.data_mut().pause();
            let answer = answer(&mut caller, parameters).await;
            caller.data_mut().resume_after_wait();
            answer
        })
    })?;
    Ok(())
}

/// What the guest reads: a number, or minus two minus the bytes of an error that lies ready as its input.
async fn answer(caller: &mut Caller<'_, Host>, parameters: Parameters) -> wasmtime::Result<f64> {
    let (verb, name_at, name_bytes, option, data_at, data_bytes) = parameters;
    let verb = Verb::from_number(verb).ok_or_else(|| wasmtime::Error::msg("a blob call of an unknown kind"))?;
    let name = String::from_utf8_lossy(guest(caller, name_at, name_bytes)?).into_owned();
    // All of it is there before anything is waited for.
    guest(caller, data_at, data_bytes)?;
    let result = match caller.data().blobs.clone() {
        Some(blobs) => run(caller, &*blobs, verb, &name, option, (data_at, data_bytes)).await?,
        None if matches!(verb, Verb::Package) => Ok(NOTHING),
        None => Err(BlobError::none_kept()),
    };
    match result {
        Ok(number) => Ok(number),
        Err(error) => {
            let text = serde_json::to_vec(&error).map_err(|error| wasmtime::Error::msg(error.to_string()))?;
            let bytes = to_number(text.len() as u64);
            caller.data_mut().give_input(text);
            Ok(-2.0 - bytes)
        }
    }
}

async fn run(
    caller: &mut Caller<'_, Host>,
    blobs: &dyn Blobs,
    verb: Verb,
    name: &str,
    option: f64,
    data: (u32, u32),
) -> wasmtime::Result<Result<f64, BlobError>> {
    Ok(match verb {
        Verb::Stat => Ok(blobs.stat(name).await.map_or(NOTHING, |(bytes, text)| to_number(bytes) * 2.0 + f64::from(u8::from(text)))),
        Verb::Read => read(caller, blobs, name, option, data).await?,
        Verb::Put | Verb::Append => write(caller, blobs, name, (option != 0.0, matches!(verb, Verb::Append)), data).await?,
        Verb::Remove => Ok(f64::from(u8::from(blobs.remove(name).await))),
        Verb::Copy => {
            let to = String::from_utf8_lossy(guest(caller, data.0, data.1)?).into_owned();
            blobs.copy(name, &to).await.map(|bytes| bytes.map_or(NOTHING, to_number))
        }
        Verb::List => Ok(give(caller, &blobs.list(name).await)?),
        Verb::Package => match blobs.package(name).await {
            Ok(Some(found)) => Ok(give(caller, &found)?),
            Ok(None) => Ok(NOTHING),
            Err(error) => Err(error),
        },
    })
}

/// Lays JSON ready as the guest's input. Answers its bytes.
fn give(caller: &mut Caller<'_, Host>, answer: &impl serde::Serialize) -> wasmtime::Result<f64> {
    let text = serde_json::to_vec(answer).map_err(|error| wasmtime::Error::msg(error.to_string()))?;
    let bytes = to_number(text.len() as u64);
    caller.data_mut().give_input(text);
    Ok(bytes)
}

async fn read(
    caller: &mut Caller<'_, Host>,
    blobs: &dyn Blobs,
    name: &str,
    from: f64,
    (at, bytes): (u32, u32),
) -> wasmtime::Result<Result<f64, BlobError>> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast from float saturates")]
    let from = from as u64;
    let mut done = 0;
    while done < bytes {
        let wanted = (bytes - done).min(CHUNK_BYTES);
        let found = match blobs.read(name, from.saturating_add(u64::from(done)), wanted as usize).await {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let length = u32::try_from(found.len()).ok().filter(|length| *length <= wanted);
        let length = length.ok_or_else(|| wasmtime::Error::msg("more was read than asked for"))?;
        guest(caller, at + done, length)?.copy_from_slice(&found);
        done += length;
        if length < wanted {
            break;
        }
    }
    Ok(Ok(f64::from(done)))
}

async fn write(
    caller: &mut Caller<'_, Host>,
    blobs: &dyn Blobs,
    name: &str,
    (text, append): (bool, bool),
    (at, bytes): (u32, u32),
) -> wasmtime::Result<Result<f64, BlobError>> {
    if let Err(error) = blobs.open(name, text, append, u64::from(bytes)).await {
        return Ok(Err(error));
    }
    let mut done = 0;
    while done < bytes {
        let length = (bytes - done).min(CHUNK_BYTES);
        let chunk = guest(caller, at + done, length)?.to_vec();
        if let Err(error) = blobs.push(name, chunk).await {
            return Ok(Err(error));
        }
        done += length;
    }
    Ok(Ok(0.0))
}

/// Exact as long as contents stay far below 2^52 bytes.
#[expect(clippy::cast_precision_loss, reason = "sizes of contents are far below 2^52")]
fn to_number(bytes: u64) -> f64 {
    bytes as f64
}
