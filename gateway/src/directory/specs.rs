//! Specs that the cache of sessions has only a part of: what is read only when a session is placed is left out there where it is large, and is here while it is in use.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use dormouse_crds::session::KernelSessionSpec;
use dormouse_lifecycle::json;

use super::Record;

/// Bytes of a spec, as JSON, up to which the cache has all of it.
pub const SPEC_KEPT_BYTES_MAX: usize = 4 << 10;
/// Bytes of larger ones, as JSON, that are kept to be sent again.
pub const SPECS_BYTES_MAX: usize = 16 << 20;

/// Those that were read last.
#[derive(Default)]
pub(super) struct Specs(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// By the object's uid.
    specs: HashMap<String, Spec>,
    /// In the order in which they came.
    order: VecDeque<String>,
    bytes: usize,
}

struct Spec {
    generation: i64,
    spec: Arc<KernelSessionSpec>,
    bytes: usize,
}

impl Specs {
    /// The record as the cache has it.
    pub(super) fn cut(mut record: Record) -> Record {
        if json::bytes(&record.spec) > SPEC_KEPT_BYTES_MAX {
            record.spec.leave_out();
            record.left_out = true;
        }
        record
    }

    /// The same of one that somebody has just asked for, or written: all of it is likely to be needed.
    pub(super) fn keep(&self, record: Record) -> Record {
        let bytes = json::bytes(&record.spec);
        if bytes > SPEC_KEPT_BYTES_MAX {
            let spec = Spec { generation: record.generation, spec: Arc::new(record.spec.clone()), bytes };
            self.with(|kept| kept.put(record.object_uid.clone(), spec));
        }
        Self::cut(record)
    }

    /// The whole spec of this generation, if it is here.
    pub(super) fn get(&self, record: &Record) -> Option<Arc<KernelSessionSpec>> {
        let known = |spec: &&Spec| spec.generation == record.generation;
        self.with(|kept| kept.specs.get(&record.object_uid).filter(known).map(|spec| Arc::clone(&spec.spec)))
    }

    /// The API server has gone back: a generation may be another one's now.
    pub(super) fn forget_all(&self) {
        self.with(|kept| *kept = Kept::default());
    }

    fn with<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Kept {
    fn put(&mut self, uid: String, spec: Spec) {
        self.bytes += spec.bytes;
        match self.specs.insert(uid.clone(), spec) {
            Some(before) => self.bytes -= before.bytes,
            None => self.order.push_back(uid),
        }
        while self.bytes > SPECS_BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.specs.remove(&oldest).map_or(0, |spec| spec.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::kubernetes::record, *};

    fn object(uid: &str, generation: i64, code: &str) -> Record {
        let object = serde_json::json!({
            "metadata": { "name": "a", "namespace": "n", "uid": uid, "generation": generation, "resourceVersion": "1" },
            "spec": { "pool": "p", "bootstrap": { "code": code } },
        });
        record(serde_json::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn what_is_small_is_kept_whole() {
        let specs = Specs::default();
        let small = object("u", 1, &"x".repeat(SPEC_KEPT_BYTES_MAX / 2));
        assert_eq!(specs.keep(small.clone()), small);
        assert!(specs.get(&small).is_none(), "it is in the cache of sessions");
    }

    #[test]
    fn what_was_read_last_is_at_hand_and_its_bytes_are_bounded() {
        let specs = Specs::default();
        let code = "x".repeat(1 << 20);
        for number in 0..40 {
            let cut = specs.keep(object(&format!("u{number}"), 1, &code));
            assert!(cut.left_out && cut.spec.bootstrap.is_none());
            assert_eq!(specs.get(&cut).unwrap().bootstrap.as_ref().unwrap().code.len(), code.len());
        }
        specs.with(|kept| {
            assert!(kept.bytes <= SPECS_BYTES_MAX && kept.bytes == kept.specs.values().map(|spec| spec.bytes).sum::<usize>());
            assert_eq!((kept.specs.len(), kept.order.len()), (15, 15));
        });
        let again = specs.keep(object("u39", 2, &code));
        assert!(specs.get(&object("u39", 1, &code)).is_none() && specs.get(&again).is_some(), "of one generation");
        assert!(specs.get(&object("u0", 1, &code)).is_none());
        specs.forget_all();
        assert!(specs.get(&again).is_none());
    }
}
