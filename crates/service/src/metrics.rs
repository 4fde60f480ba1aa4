//! The metrics of a process. Values of labels come from closed enums: never from names, arguments or anything a tenant chooses.

use std::collections::HashMap;

use prometheus::{
    Encoder as _, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// Bucket bounds in seconds for what takes from tens of microseconds to half a minute.
pub const LATENCY_BUCKETS_SECONDS: &[f64] =
    &[0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// A registry whose metrics are all called `dormouse_…`. Clones share it.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self { registry: Registry::new() }
    }

    /// An empty registry of one of several parts of a process that count the same: what it has is told apart by this label.
    ///
    /// # Errors
    /// See [`Self::counter`].
    pub fn of_part(label: &str, value: &str) -> Result<Self, prometheus::Error> {
        let labels = HashMap::from([(label.to_owned(), value.to_owned())]);
        Ok(Self { registry: Registry::new_custom(None, Some(labels))? })
    }

    /// Tells what all these count beside its own.
    ///
    /// # Errors
    /// It does so of others already.
    pub fn include(&self, parts: Vec<Self>) -> Result<(), prometheus::Error> {
        self.registry.register(Box::new(Parts(parts)))
    }

    /// The registry itself, for collectors that are not made here.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// A counter `dormouse_NAME`.
    ///
    /// # Errors
    /// The name is bad or taken; so for all that follow.
    pub fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        self.register(IntCounter::with_opts(opts(name, help))?)
    }

    /// Counters `dormouse_NAME` by labels.
    ///
    /// # Errors
    /// See [`Self::counter`].
    pub fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, prometheus::Error> {
        self.register(IntCounterVec::new(opts(name, help), labels)?)
    }

    /// A gauge `dormouse_NAME`.
    ///
    /// # Errors
    /// See [`Self::counter`].
    pub fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        self.register(IntGauge::with_opts(opts(name, help))?)
    }

    /// Gauges `dormouse_NAME` by labels.
    ///
    /// # Errors
    /// See [`Self::counter`].
    pub fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, prometheus::Error> {
        self.register(IntGaugeVec::new(opts(name, help), labels)?)
    }

    /// A histogram `dormouse_NAME` of seconds, with [`LATENCY_BUCKETS_SECONDS`].
    ///
    /// # Errors
    /// See [`Self::counter`].
    pub fn latency(&self, name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
        self.register(Histogram::with_opts(histogram_opts(name, help))?)
    }

    /// Histograms `dormouse_NAME` of seconds by labels, with [`LATENCY_BUCKETS_SECONDS`].
    ///
    /// # Errors
    /// See [`Self::counter`].
    pub fn latencies(&self, name: &str, help: &str, labels: &[&str]) -> Result<HistogramVec, prometheus::Error> {
        self.register(HistogramVec::new(histogram_opts(name, help), labels)?)
    }

    /// The Prometheus text format, version 0.0.4.
    ///
    /// # Errors
    /// A metric cannot be encoded.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn register<C: prometheus::core::Collector + Clone + 'static>(&self, collector: C) -> Result<C, prometheus::Error> {
        self.registry.register(Box::new(collector.clone()))?;
        Ok(collector)
    }
}

/// Registries as a collector. What they have of one name the registry that gathers them puts together.
struct Parts(Vec<Metrics>);

impl Collector for Parts {
    fn desc(&self) -> Vec<&Desc> {
        Vec::new()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.0.iter().flat_map(|part| part.registry.gather()).collect()
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("dormouse")
}

fn histogram_opts(name: &str, help: &str) -> HistogramOpts {
    HistogramOpts::new(name, help).namespace("dormouse").buckets(LATENCY_BUCKETS_SECONDS.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_count_the_same_are_told_apart_beside_what_the_whole_counts() {
        let whole = Metrics::new();
        whole.counter("whole_total", "All.").unwrap().inc();
        let part = |name: &str, count: u64| {
            let part = Metrics::of_part("part", name).unwrap();
            part.counter("calls_total", "Calls.").unwrap().inc_by(count);
            part.counters("by_kind_total", "Calls by kind.", &["kind"]).unwrap().with_label_values(&["a"]).inc_by(count);
            part
        };
        whole.include(vec![part("one", 1), part("two", 2)]).unwrap();
        let text = whole.render().unwrap();
        for line in [
            "dormouse_whole_total 1",
            "dormouse_calls_total{part=\"one\"} 1",
            "dormouse_calls_total{part=\"two\"} 2",
            "dormouse_by_kind_total{kind=\"a\",part=\"two\"} 2",
        ] {
            assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line}: {text}");
        }
        assert_eq!(text.matches("# TYPE dormouse_calls_total").count(), 1, "{text}");
    }
}
