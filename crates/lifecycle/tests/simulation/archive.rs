//! The session leaves the API server for the archive, a request at a time. It comes back when somebody asks for it, under a uid that is not its own.

use bytes::Bytes;

use crate::{
    mutant::Mutant,
    outside::{Existence, Outside, session},
};

/// What is done next.
#[derive(Default)]
pub enum Archive {
    Marks,
    Leaves,
    /// The order that is wrong.
    MarksLate,
    #[default]
    Done,
}

impl Archive {
    /// One request.
    pub fn step(&mut self, out: &mut Outside) {
        if out.exists != Existence::Live && !matches!(self, Self::MarksLate) || out.store.is_silent(&mut out.random) {
            return;
        }
        *self = match std::mem::take(self) {
            Self::Marks if out.is(Mutant::LeavesUnmarked) => leave(out, Self::MarksLate),
            Self::Marks => {
                mark(out);
                Self::Leaves
            }
            Self::Leaves => leave(out, Self::Done),
            Self::MarksLate => {
                mark(out);
                Self::Done
            }
            Self::Done => Self::Done,
        };
    }
}

/// Whether the store says that the session's uid may be that of no object of the API server.
pub fn is_marked(out: &Outside) -> bool {
    out.store.objects.contains_key(&mark_key())
}

/// The key of the object that says so.
pub fn mark_key() -> String {
    let [own, _] = session().archived();
    own
}

fn mark(out: &mut Outside) {
    out.store.objects.insert(mark_key(), (Bytes::new(), "marked".to_owned()));
}

fn leave(out: &mut Outside, then: Archive) -> Archive {
    (out.exists, out.archived) = (Existence::Archived, true);
    then
}
