//! Numbers for Prometheus. Labels come from closed sets (routes, codes, reasons), never from
//! what a caller sent, so the number of series is bounded.

use crate::codes::Code;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use semel_core::Door;
use semel_store::{AdmitResult, Tally};
use std::sync::atomic::Ordering;
use std::time::Duration;

pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabels {
    door: &'static str,
    decision: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusalLabels {
    code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
}

pub struct Metrics {
    registry: Registry,
    decisions: Family<DecisionLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    pub connections: Gauge,
    pub event_streams: Gauge,
    store_commits: Counter,
    store_writes: Counter,
}

fn request_histogram() -> Histogram {
    Histogram::new([0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0])
}

impl Metrics {
    pub fn new(version: &str) -> Metrics {
        let mut registry = Registry::with_prefix("semel");
        let decisions = Family::default();
        registry.register("decisions", "Events decided at HTTP doors, by door, decision and reason", decisions.clone());
        let refusals = Family::default();
        registry.register("refusals", "Problem answers, by code", refusals.clone());
        let requests = Family::default();
        registry.register("http_requests", "Requests, by route and status", requests.clone());
        let seconds = Family::new_with_constructor(request_histogram as fn() -> Histogram);
        registry.register("http_request_seconds", "Time from the request's head to the answer's head", seconds.clone());
        let connections = Gauge::default();
        registry.register("http_connections", "Open connections", connections.clone());
        let event_streams = Gauge::default();
        registry.register("event_streams", "Open event streams", event_streams.clone());
        let store_commits = Counter::default();
        registry.register("store_commits", "Transactions of the store", store_commits.clone());
        let store_writes = Counter::default();
        registry.register("store_writes", "Writes in those transactions", store_writes.clone());
        registry.register("build", "The version that runs", Info::new([("version", version.to_owned())]));
        Metrics {
            registry,
            decisions,
            refusals,
            requests,
            seconds,
            connections,
            event_streams,
            store_commits,
            store_writes,
        }
    }

    pub fn decided(&self, door: Door, result: &AdmitResult) {
        let labels =
            DecisionLabels { door: door.word(), decision: result.decision.word(), reason: result.reason.word() };
        self.decisions.get_or_create(&labels).inc();
    }

    pub fn refused(&self, code: Code) {
        self.refusals.get_or_create(&RefusalLabels { code: code.word() }).inc();
    }

    pub fn answered(&self, route: &'static str, status: u16, took: Duration) {
        self.requests.get_or_create(&RequestLabels { route, status }).inc();
        self.seconds.get_or_create(&RouteLabels { route }).observe(took.as_secs_f64());
    }

    pub fn text(&self, tally: Tally) -> String {
        self.store_commits.inner().store(tally.commits, Ordering::Relaxed);
        self.store_writes.inner().store(tally.writes, Ordering::Relaxed);
        let mut out = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut out, &self.registry);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_with_their_labels() {
        let metrics = Metrics::new("1.2.3");
        metrics.refused(Code::KeyEmpty);
        metrics.answered("/v1/runs", 200, Duration::from_millis(3));
        let text = metrics.text(Tally { commits: 2, writes: 7 });
        for line in [
            "semel_refusals_total{code=\"key_empty\"} 1",
            "semel_http_requests_total{route=\"/v1/runs\",status=\"200\"} 1",
            "semel_build_info{version=\"1.2.3\"} 1",
            "semel_http_connections 0",
            "semel_store_commits_total 2",
            "semel_store_writes_total 7",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
