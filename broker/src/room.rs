//! Room for large answers that are read whole: see [`dormouse_service::room`]. A call waits for its turn within its own timeout.

use std::sync::LazyLock;

use dormouse_service::room::Room;
pub(crate) use dormouse_service::room::{Holding, SMALL_BYTES_MAX};

/// Bytes of large answers at one time, each counted as the largest that its service may answer. An answer is in memory about six times before it has
/// left: as it came, without secrets, as a value, in the journal and as it is sent.
const LARGE_BYTES_MAX: u64 = 32 << 20;

/// The process's: so is its memory.
static LARGE: LazyLock<Room> = LazyLock::new(|| Room::new(LARGE_BYTES_MAX));

/// What a call holds, which holds nothing yet.
pub(crate) fn holding() -> Holding {
    LARGE.holding()
}

/// That of the call whose task this is; where there is none, one that ends with the reading.
pub(crate) fn current() -> Holding {
    Holding::current().unwrap_or_else(holding)
}
