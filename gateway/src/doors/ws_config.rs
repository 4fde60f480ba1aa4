//! What a session is made with by a frame `create`.

use dormouse_crds::session::{Determinism, KernelSessionSpec};
use dormouse_protocol::ApiError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::config::{self, invalid};

/// What a session is made with.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Config {
    /// Milliseconds since 1970, or RFC 3339: where a deterministic clock begins.
    clock: Option<Value>,
    rng_seed: Option<u64>,
    /// Console output is always captured.
    #[serde(rename = "capture")]
    _capture: Option<Value>,
    cell_budget_ticks: Option<u64>,
    fetch: Option<Value>,
    /// The name of a ToolBroker, tools that the client itself makes, or both: `{broker, client}`.
    tools: Option<Value>,
    modules: Option<Vec<String>>,
}

/// The spec that a `config` means.
pub(super) fn spec(config: &Config) -> Result<KernelSessionSpec, ApiError> {
    let mut spec = KernelSessionSpec::default();
    if let Some(ticks) = config.cell_budget_ticks {
        spec.limits.eval_ticks = ticks;
    }
    let epoch = match &config.clock {
        None => None,
        Some(Value::String(time)) => Some(time.clone()),
        Some(Value::Number(ms)) => {
            let time = ms.as_i64().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
            Some(time.ok_or_else(|| invalid("clock", "write milliseconds since 1970, or RFC 3339"))?.to_string())
        }
        Some(_) => return Err(invalid("clock", "write milliseconds since 1970, or RFC 3339")),
    };
    if config.rng_seed.is_some() || epoch.is_some() {
        let epoch = epoch.unwrap_or_else(|| "2026-01-01T00:00:00Z".to_owned());
        spec.determinism = Some(Determinism { seed: config.rng_seed.unwrap_or(0), epoch });
    }
    let mut more = serde_json::Map::new();
    match &config.fetch {
        None | Some(Value::Null | Value::Bool(false)) => {}
        Some(Value::Bool(true)) => drop(more.insert("egress".to_owned(), json!({ "allow": [{ "host": "*" }] }))),
        Some(Value::Array(hosts)) => {
            let allow: Vec<_> = hosts.iter().map(|host| json!({ "host": host })).collect();
            more.insert("egress".to_owned(), json!({ "allow": allow }));
        }
        Some(_) => return Err(invalid("fetch", "write true, false, or a list of hosts")),
    }
    config::add_tools(&mut more, config.tools.as_ref())?;
    if let Some(modules) = &config.modules {
        more.insert("modules".to_owned(), json!({ "allow": modules }));
    }
    config::with_fields(&spec, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(config: Value) -> Result<KernelSessionSpec, ApiError> {
        spec(&serde_json::from_value(config).unwrap())
    }

    #[test]
    fn a_config_becomes_a_spec() {
        let spec = of(json!({
            "clock": 1_767_225_600_000_u64, "rngSeed": 7, "capture": true, "cellBudgetTicks": 1200, "fetch": ["api.example"], "tools": "tools",
            "modules": ["lodash"]
        }))
        .unwrap();
        assert_eq!(spec.determinism, Some(Determinism { seed: 7, epoch: "2026-01-01T00:00:00Z".to_owned() }));
        assert_eq!(spec.limits.eval_ticks, 1200);
        assert_eq!(spec.egress.unwrap().allow.len(), 1);
        assert_eq!(spec.tool_broker_ref.unwrap().name, "tools");
        assert_eq!(spec.modules.unwrap().allow, ["lodash"]);
        let own = of(json!({ "tools": { "broker": "tools", "client": [{ "name": "ask" }] } })).unwrap();
        assert_eq!((own.client_tools[0].name.as_str(), own.tool_broker_ref.is_some()), ("ask", true));
        assert_eq!(of(json!({ "fetch": false })).unwrap().egress, None);
        for (bad, path) in
            [(json!({ "fetch": 7 }), "config.fetch"), (json!({ "tools": 7 }), "config.tools"), (json!({ "clock": {} }), "config.clock")]
        {
            assert_eq!(of(bad).unwrap_err().details.unwrap()["path"], path);
        }
    }
}
