//! KernelQuota: what the sessions of a namespace may use together.

use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// Limits of a namespace, of which each holds where there are several quotas; in the status, what is used of them. Absent: not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(kube::CustomResource, schemars::JsonSchema))]
#[cfg_attr(
    feature = "kubernetes",
    kube(
        group = "dormouse.dev",
        version = "v1alpha1",
        kind = "KernelQuota",
        plural = "kernelquotas",
        shortname = "kq",
        namespaced,
        status = "KernelQuotaStatus",
        derive = "PartialEq",
        printcolumn = r#"{"name":"Sessions","type":"integer","jsonPath":".status.used.sessions"}"#,
        printcolumn = r#"{"name":"Max","type":"integer","jsonPath":".spec.sessions"}"#,
        printcolumn = r#"{"name":"Exceeded","type":"string","jsonPath":".status.conditions[?(@.type==\"Exceeded\")].message"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::quota())))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct KernelQuotaSpec {
    /// Sessions, asleep or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u64>,
    /// Bytes of the heaps of all live sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_heap_bytes: Option<u64>,
    /// Bytes of all sessions in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
    /// Cells that are begun in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evals_per_second: Option<u64>,
    /// Seconds of running code in an hour of the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds_per_hour: Option<u64>,
    /// Bytes that tool calls and fetches send and get on a day, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_bytes_per_day: Option<u64>,
}

impl KernelQuotaSpec {
    /// The smaller of two limits each: several quotas hold together.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        Self {
            sessions: least(self.sessions, other.sessions),
            live_heap_bytes: least(self.live_heap_bytes, other.live_heap_bytes),
            stored_bytes: least(self.stored_bytes, other.stored_bytes),
            evals_per_second: least(self.evals_per_second, other.evals_per_second),
            cpu_seconds_per_hour: least(self.cpu_seconds_per_hour, other.cpu_seconds_per_hour),
            egress_bytes_per_day: least(self.egress_bytes_per_day, other.egress_bytes_per_day),
        }
    }

    /// The same without what `wanted` does not name.
    #[must_use]
    pub fn only(self, wanted: &Self) -> Self {
        Self {
            sessions: self.sessions.filter(|_| wanted.sessions.is_some()),
            live_heap_bytes: self.live_heap_bytes.filter(|_| wanted.live_heap_bytes.is_some()),
            stored_bytes: self.stored_bytes.filter(|_| wanted.stored_bytes.is_some()),
            evals_per_second: self.evals_per_second.filter(|_| wanted.evals_per_second.is_some()),
            cpu_seconds_per_hour: self.cpu_seconds_per_hour.filter(|_| wanted.cpu_seconds_per_hour.is_some()),
            egress_bytes_per_day: self.egress_bytes_per_day.filter(|_| wanted.egress_bytes_per_day.is_some()),
        }
    }
}

/// What a namespace has used, as far as it is limited.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct KernelQuotaStatus {
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Exceeded`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])))]
    pub conditions: Vec<Condition>,
    /// What was used when it was looked at last: about a minute ago while sessions are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<KernelQuotaSpec>,
    /// When that was, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

/// What an API server refuses.
#[cfg(feature = "kubernetes")]
mod rules {
    use serde_json::Value;

    use crate::rules::{rule, rules};

    pub(super) fn quota() -> Value {
        let fields = ["sessions", "liveHeapBytes", "storedBytes", "evalsPerSecond", "cpuSecondsPerHour", "egressBytesPerDay"];
        let any = fields.map(|field| format!("has(self.{field})")).join(" || ");
        rules([rule(
            &any,
            "a quota limits something: write one of sessions, liveHeapBytes, storedBytes, evalsPerSecond, cpuSecondsPerHour, egressBytesPerDay",
        )])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_quotas_each_holds() {
        let one = KernelQuotaSpec { sessions: Some(3), stored_bytes: Some(9), ..KernelQuotaSpec::default() };
        let other = KernelQuotaSpec { sessions: Some(5), evals_per_second: Some(2), ..KernelQuotaSpec::default() };
        let both = one.least(other);
        assert_eq!((both.sessions, both.stored_bytes, both.evals_per_second), (Some(3), Some(9), Some(2)));
        let used = KernelQuotaSpec { sessions: Some(1), live_heap_bytes: Some(4), ..KernelQuotaSpec::default() };
        assert_eq!(used.only(&one), KernelQuotaSpec { sessions: Some(1), ..KernelQuotaSpec::default() });
    }
}
