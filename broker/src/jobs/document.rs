//! A job as it is stored. Pure.

use dormouse_protocol::{broker::ToolAnswer, job::Job};
use serde::{Deserialize, Serialize};

use super::JobName;

/// A call that a runner makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document {
    /// Tells a repeated call from another one with the same number.
    pub(crate) fingerprint: String,
    pub(crate) tool: String,
    pub(crate) capability: String,
    /// As the runner gets them.
    pub(crate) args: serde_json::Value,
    pub(crate) session: String,
    /// The epoch that made it.
    pub(crate) epoch: u64,
    pub(crate) created_ms: i64,
    pub(crate) expires_ms: i64,
    /// How often it was claimed.
    pub(crate) attempts: u32,
    pub(crate) state: State,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    /// Nobody has it.
    Waiting,
    /// A runner has it until then.
    #[serde(rename_all = "camelCase")]
    Claimed { runner: String, lease: String, until_ms: i64 },
    /// It was answered, under this lease, or is over.
    #[serde(rename_all = "camelCase")]
    Done { answer: Box<ToolAnswer>, lease: Option<String> },
}

impl Document {
    pub(crate) fn job_name(&self, uid: &str, call: u64) -> JobName {
        JobName { uid: uid.to_owned(), call, created_ms: self.created_ms, capability: self.capability.clone() }
    }

    /// Ends it, unless it has ended.
    pub(crate) fn end(&mut self, answer: ToolAnswer) -> bool {
        let ends = !matches!(self.state, State::Done { .. });
        if ends {
            self.state = State::Done { answer: Box::new(answer), lease: None };
        }
        ends
    }

    /// Its runner keeps it, if it is the one with this lease.
    pub(crate) fn keep(&mut self, held: &str, until: i64) -> bool {
        match &mut self.state {
            State::Claimed { lease, until_ms, .. } if lease == held => {
                *until_ms = until;
                true
            }
            _ => false,
        }
    }

    /// Its runner answers. A lease that has run out is good as long as nobody else has the job.
    pub(crate) fn answer(&mut self, held: &str, answer: &ToolAnswer) -> bool {
        let own = matches!(&self.state, State::Claimed { lease, .. } if lease == held);
        if own {
            self.state = State::Done { answer: Box::new(answer.clone()), lease: Some(held.to_owned()) };
        }
        own
    }

    pub(crate) fn was_answered_under(&self, held: &str) -> bool {
        matches!(&self.state, State::Done { lease: Some(lease), .. } if lease == held)
    }

    /// As its runner gets it.
    pub(crate) fn job(&self, broker: &str, job_name: &JobName, lease: String, lease_seconds: u64) -> Job {
        let time = |ms| jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string()).unwrap_or_default();
        Job {
            id: format!("{broker}.{}.{}", job_name.uid, job_name.call),
            tool: self.tool.clone(),
            capability: self.capability.clone(),
            arguments: self.args.clone(),
            session: self.session.clone(),
            created_at: time(self.created_ms),
            expires_at: time(self.expires_ms),
            attempt: self.attempts,
            lease,
            lease_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_who_has_a_job_keeps_and_answers_it_and_once() {
        let mut document = Document {
            fingerprint: String::new(),
            tool: "render".to_owned(),
            capability: "browser".to_owned(),
            args: json!({}),
            session: "s".to_owned(),
            epoch: 1,
            created_ms: 0,
            expires_ms: 10,
            attempts: 1,
            state: State::Claimed { runner: "r".to_owned(), lease: "one".to_owned(), until_ms: 5 },
        };
        let answer = ToolAnswer::Ok { value: json!(1) };
        assert!(!document.keep("other", 9) && !document.answer("other", &answer));
        assert!(document.keep("one", 9) && document.answer("one", &answer));
        assert!(document.was_answered_under("one") && !document.was_answered_under("other"));
        assert!(!document.answer("one", &ToolAnswer::Ok { value: json!(2) }) && !document.keep("one", 9) && !document.end(answer));
        let job_name = JobName { uid: "4f-1".to_owned(), call: 12, created_ms: 7, capability: "browser".to_owned() };
        let read = JobName::read(&job_name.name(), "browser").unwrap();
        assert_eq!((read.uid.as_str(), read.call, read.created_ms), ("4f-1", 12, 7));
        assert!(JobName::read("x", "browser").is_none());
    }
}
