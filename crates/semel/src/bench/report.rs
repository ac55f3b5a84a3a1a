//! The figures side by side, and the floors they are held to.

use super::figure::Figure;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::time::Duration;

/// Floors, as parts of what the machine can do at most.
const FRESH_OF_RAW_COMMIT: f64 = 0.5;
const FRESH_OF_RAW_HTTP: f64 = 0.4;
const REPLAY_OF_RAW_HTTP: f64 = 0.5;
const STEPS10_OF_FRESH: f64 = 0.5;
const IDLE_KIB_MAX: u64 = 50 * 1024;
const COLD_START_MAX: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Report {
    pub clients: usize,
    pub seconds: f64,
    pub raw_http: Figure,
    pub raw_commit: Figure,
    pub fresh: Figure,
    pub replay: Figure,
    pub hot: Figure,
    pub steps10: Figure,
    pub runs_before: u64,
    pub idle_kib: u64,
    pub peak_kib: u64,
    pub cold_start: Duration,
    pub store_bytes: u64,
}

/// What was measured against what is wanted.
pub struct Floor {
    name: &'static str,
    rule: &'static str,
    measured: String,
    pub met: bool,
}

impl Floor {
    pub fn text(&self) -> String {
        format!("{} is {} ({})", self.name, self.measured, self.rule)
    }
}

fn ratio(part: &Figure, whole: &Figure) -> f64 {
    part.per_second() / whole.per_second().max(1e-9)
}

impl Report {
    fn figures(&self) -> [(&'static str, &Figure); 6] {
        [
            ("raw_http", &self.raw_http),
            ("raw_commit", &self.raw_commit),
            ("fresh", &self.fresh),
            ("replay", &self.replay),
            ("hot", &self.hot),
            ("steps10", &self.steps10),
        ]
    }

    fn ratios(&self) -> [(&'static str, f64); 5] {
        [
            ("fresh / raw_commit", ratio(&self.fresh, &self.raw_commit)),
            ("fresh / raw_http", ratio(&self.fresh, &self.raw_http)),
            ("replay / raw_http", ratio(&self.replay, &self.raw_http)),
            ("hot / raw_http", ratio(&self.hot, &self.raw_http)),
            ("steps10 / fresh", ratio(&self.steps10, &self.fresh)),
        ]
    }

    pub fn floors(&self) -> Vec<Floor> {
        let of_commit = ratio(&self.fresh, &self.raw_commit);
        let of_http = ratio(&self.fresh, &self.raw_http);
        let replay = ratio(&self.replay, &self.raw_http);
        let steps = ratio(&self.steps10, &self.fresh);
        vec![
            Floor {
                name: "fresh",
                rule: "at least 0.5 of raw_commit or 0.4 of raw_http",
                measured: format!("{of_commit:.2} of raw_commit and {of_http:.2} of raw_http"),
                met: of_commit >= FRESH_OF_RAW_COMMIT || of_http >= FRESH_OF_RAW_HTTP,
            },
            Floor {
                name: "replay",
                rule: "at least 0.5 of raw_http",
                measured: format!("{replay:.2}"),
                met: replay >= REPLAY_OF_RAW_HTTP,
            },
            Floor {
                name: "steps10",
                rule: "at least 0.5 of fresh",
                measured: format!("{steps:.2}"),
                met: steps >= STEPS10_OF_FRESH,
            },
            Floor {
                name: "idle memory",
                rule: "under 50 MiB",
                measured: format!("{} MiB", self.idle_kib / 1024),
                met: self.idle_kib < IDLE_KIB_MAX,
            },
            Floor {
                name: "cold start",
                rule: "under 1 s",
                measured: format!("{} ms", self.cold_start.as_millis()),
                met: self.cold_start < COLD_START_MAX,
            },
        ]
    }

    pub fn json(&self) -> Json {
        let figures: serde_json::Map<String, Json> =
            self.figures().iter().map(|(name, figure)| ((*name).to_owned(), figure.json())).collect();
        let ratios: serde_json::Map<String, Json> = self
            .ratios()
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!((value * 1e3).round() / 1e3)))
            .collect();
        let floors: Vec<Json> = self
            .floors()
            .iter()
            .map(|f| json!({"name": f.name, "rule": f.rule, "measured": f.measured, "met": f.met}))
            .collect();
        json!({
            "clients": self.clients,
            "seconds": self.seconds,
            "runs_before": self.runs_before,
            "figures": figures,
            "ratios": ratios,
            "floors": floors,
            "idle_rss_kib": self.idle_kib,
            "peak_rss_kib": self.peak_kib,
            "cold_start_ms": self.cold_start.as_millis() as u64,
            "store_bytes": self.store_bytes,
        })
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        let line = |name: &str, cells: [String; 5]| {
            format!("{name:<12}{:>12}{:>12}{:>12}{:>12}{:>12}\n", cells[0], cells[1], cells[2], cells[3], cells[4])
        };
        out += &line("", ["per second", "p50 ms", "p99 ms", "cpu us", "operations"].map(str::to_owned));
        for (name, figure) in self.figures() {
            let ms = |share| format!("{:.2}", f64::from(figure.quantile(share)) / 1e3);
            let cells = [
                format!("{:.0}", figure.per_second()),
                ms(0.5),
                ms(0.99),
                format!("{:.1}", figure.cpu_us()),
                figure.operations().to_string(),
            ];
            out += &line(name, cells);
        }
        out.push('\n');
        for (name, value) in self.ratios() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{name:<20}{value:>6.2}");
        }
        let _ = writeln!(
            out,
            "\nmemory idle {} MiB, peak {} MiB; cold start {} ms; store {} MiB with {} runs before\n",
            self.idle_kib / 1024,
            self.peak_kib / 1024,
            self.cold_start.as_millis(),
            self.store_bytes >> 20,
            self.runs_before,
        );
        for floor in self.floors() {
            let _ = writeln!(out, "{} {}", if floor.met { "met   " } else { "MISSED" }, floor.text());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(operations: usize) -> Figure {
        Figure::new(vec![100; operations], Duration::from_secs(1))
    }

    #[test]
    fn floors_are_ratios() {
        let mut report = Report {
            raw_http: figure(1_000),
            raw_commit: figure(600),
            fresh: figure(300),
            replay: figure(500),
            hot: figure(400),
            steps10: figure(150),
            ..Report::default()
        };
        assert!(report.floors().iter().all(|floor| floor.met));
        report.fresh = figure(299);
        assert!(!report.floors()[0].met, "less than half of raw_commit and less than 0.4 of raw_http");
        report.raw_http = figure(747);
        assert!(report.floors()[0].met, "the lower of the two limits counts");
        report.replay = figure(373);
        assert!(!report.floors()[1].met);
        report.steps10 = figure(149);
        assert!(!report.floors()[2].met);
        (report.idle_kib, report.cold_start) = (51 * 1024, Duration::from_millis(1_001));
        assert!(!report.floors()[3].met && !report.floors()[4].met);
        assert_eq!(report.json()["ratios"]["replay / raw_http"], json!(0.499));
        assert!(report.text().contains("MISSED replay is 0.50"), "{}", report.text());
    }
}
