//! Carries out the steps of a commit machine.

use std::sync::Arc;

use dormouse_lifecycle::{Commit, Reply, Step};

use crate::{
    check::Violation,
    mutant::Mutant,
    outside::{Outside, session},
    store::Put,
};

/// Does `step` and tells the machine. Answers what is next, and whether the outcome is unknown.
pub fn perform(out: &mut Outside, boot: u64, machine: &mut Commit, step: &Step) -> Result<(Step, bool), Violation> {
    let put = match step {
        Step::PutSegment { key, bytes } => {
            Some(Put { key: key.clone(), bytes: bytes.clone(), condition: Some(dormouse_lifecycle::Condition::Absent), boot })
        }
        Step::PutHead { key, bytes, condition } => {
            let condition = (!out.is(Mutant::IgnoresEtag)).then(|| condition.clone());
            Some(Put { key: key.clone(), bytes: bytes.clone(), condition, boot })
        }
        Step::GetHead { .. } => None,
        other => return Err(Violation { checker: "a machine asks for what can be done", what: format!("{other:?}") }),
    };
    let reply = match put {
        Some(put) => out.store.send(&mut out.random, &mut out.checks, put)?,
        None if out.store.is_silent(&mut out.random) => Reply::Unknown,
        None => Reply::Head(out.store.head(&mut out.random, &session().head()).map(|(head, etag)| (Arc::new(head), etag))),
    };
    let unknown = reply == Reply::Unknown;
    let reply = match reply {
        Reply::Unknown if out.is(Mutant::AcksUnknownOutcomes) && !matches!(step, Step::GetHead { .. }) => {
            Reply::Stored { etag: "assumed".to_owned() }
        }
        reply => reply,
    };
    Ok((machine.on(reply), unknown))
}
