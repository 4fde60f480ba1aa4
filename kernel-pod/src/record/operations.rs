//! Which requests have made a checkpoint, or have gone back to one: another sending of such a request changes nothing.
//!
//! They ride in the record, in the very commit that carries them out, so whoever has the session next knows of them, too.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Operations that are remembered. Another sending of one comes within the time of a request, in which few others can be carried out.
const OPERATIONS_MAX: usize = 32;

/// Operations that were carried out, the latest last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Operations(VecDeque<Operation>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Operation {
    key: String,
    sequence: u64,
}

impl Operations {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sequence of the commit that carried the request of this key out.
    pub(crate) fn find(&self, key: Option<&str>) -> Option<u64> {
        let key = key?;
        self.0.iter().find(|operation| operation.key == key).map(|operation| operation.sequence)
    }

    /// Takes down that the commit of this sequence carries it out.
    pub(crate) fn note(&mut self, key: Option<String>, sequence: u64) {
        let Some(key) = key else { return };
        self.0.push_back(Operation { key, sequence });
        while self.0.len() > OPERATIONS_MAX {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_operations_are_known_by_their_keys() {
        let mut operations = Operations::default();
        operations.note(None, 1);
        assert!(operations.is_empty() && operations.find(None).is_none());
        for sequence in 1..=OPERATIONS_MAX as u64 + 1 {
            operations.note(Some(format!("key-{sequence}")), sequence);
        }
        assert_eq!((operations.find(Some("key-1")), operations.find(Some("key-2"))), (None, Some(2)));
        let stored: Operations = serde_json::from_str(&serde_json::to_string(&operations).unwrap()).unwrap();
        assert_eq!(stored, operations);
    }
}
