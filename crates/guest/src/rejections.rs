//! Promises that were rejected and whose error nobody has yet.

use rquickjs::{Ctx, Persistent, Value};

use crate::single::Single;

type Kept = Persistent<Value<'static>>;

static REJECTIONS: Single<Vec<(Kept, Kept)>> = Single::new(Vec::new());

/// Notes that a promise was rejected without a handler, or has one now.
pub fn track<'js>(ctx: Ctx<'js>, promise: Value<'js>, reason: Value<'js>, handled: bool) {
    if handled {
        forget(&promise);
    } else {
        REJECTIONS.get().push((Persistent::save(&ctx, promise), Persistent::save(&ctx, reason)));
    }
}

/// Somebody has the promise's error.
pub fn forget(promise: &Value<'_>) {
    let list = REJECTIONS.get();
    let same = |kept: &Kept| kept.clone().restore(promise.ctx()).is_ok_and(|value| value.as_raw() == promise.as_raw());
    if let Some(at) = list.iter().rposition(|(kept, _)| same(kept)) {
        let _ = list.remove(at);
    }
}

/// The reasons of those that nobody has taken.
pub fn take() -> impl Iterator<Item = Kept> {
    std::mem::take(REJECTIONS.get()).into_iter().map(|(_, reason)| reason)
}
