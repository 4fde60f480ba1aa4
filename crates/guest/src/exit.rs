//! `process.exit`: the code that runs ends, and with it all that is part of its cell.

use rquickjs::{Ctx, Persistent, Value};

use crate::{boundary, natives, single::Single};

/// That a cell has ended itself.
pub struct Exit {
    /// What is told of it.
    pub told: Persistent<Value<'static>>,
    /// The life of the code that asked for it.
    pub life: Persistent<Value<'static>>,
}

static EXIT: Single<Option<Exit>> = Single::new(None);

/// Ends the code that runs: nothing in it catches what is thrown here, no `finally` runs, and no job of its cell will.
pub fn exit<'js>(ctx: Ctx<'js>, told: Value<'js>) -> rquickjs::Result<()> {
    let life = natives::life(ctx.clone());
    natives::end(&life);
    *EXIT.get() = Some(Exit { told: Persistent::save(&ctx, told.clone()), life: Persistent::save(&ctx, life) });
    Err(natives::throw_out(&ctx, told))
}

/// What has ended itself since this was asked. Until then code that goes on all the same, because it is native, is stopped at its next poll.
pub fn take() -> Option<Exit> {
    EXIT.get().take()
}

/// Whether code is on its way out.
pub fn is_leaving() -> bool {
    EXIT.get().is_some()
}

/// Whether what runs must stop: it has ended itself, or the host says so.
pub fn interrupt() -> bool {
    is_leaving() || boundary::interrupt()
}
