//! Calls that runners make.

use serde::{Deserialize, Serialize};

use super::ToolAnswer;

/// A runner wants a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimJobCall {
    /// The namespace.
    pub namespace: String,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// Its name, for people.
    pub runner: String,
}

/// What it gets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimedJob {
    /// The job, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<crate::job::Job>,
    /// Jobs that were found to be over: their sessions are to be told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<JobEnded>,
}

/// A job that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobEnded {
    /// Name of the session.
    pub session: String,
    /// The call's number in the session.
    pub call: u64,
}

/// A runner lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatJobCall {
    /// The namespace.
    pub namespace: String,
    /// Uid of the session.
    pub session_uid: String,
    /// The call's number in the session.
    pub call: u64,
    /// The job's lease.
    pub lease: String,
}

/// A runner answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerJobCall {
    /// The namespace.
    pub namespace: String,
    /// Uid of the session.
    pub session_uid: String,
    /// The call's number in the session.
    pub call: u64,
    /// The job's lease.
    pub lease: String,
    /// What came of it.
    pub answer: ToolAnswer,
    /// Who answers.
    pub by: String,
}

/// A runner's answer is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnsweredJob {
    /// Name of the session.
    pub session: String,
}
