//! Natives that only some modules need: made when a module asks for its part, so that a session that never does has no object of them.

use rquickjs::{Ctx, Object, Result};

use crate::{bytes, ciphers, compression, curves, encodings, rsa, segments};

/// The functions of a part; none for a name that is no part.
pub fn make<'js>(ctx: Ctx<'js>, name: String) -> Result<Object<'js>> {
    let part = Object::new(ctx)?;
    match name.as_str() {
        "bytes" => bytes::add_to(&part)?,
        "ciphers" => ciphers::add_to(&part)?,
        "compression" => compression::add_to(&part)?,
        "curves" => curves::add_to(&part)?,
        "encodings" => encodings::add_to(&part)?,
        "rsa" => rsa::add_to(&part)?,
        "segments" => segments::add_to(&part)?,
        _ => {}
    }
    Ok(part)
}
