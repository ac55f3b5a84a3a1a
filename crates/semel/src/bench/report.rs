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
/// What several nodes may lose together against one, on a machine that they share.
const ALL_OF_ONE: f64 = 0.85;
const HOT_TIMES_MAX: f64 = 3.0;
const IDLE_KIB_MAX: u64 = 50 * 1024;
const COLD_START_MAX: Duration = Duration::from_secs(1);

/// What is measured over HTTP.
#[derive(Default)]
pub struct Figures {
    pub fresh: Figure,
    pub replay: Figure,
    pub hot: Figure,
    pub steps10: Figure,
}

impl Figures {
    fn named(&self) -> [(&'static str, &Figure); 4] {
        [("fresh", &self.fresh), ("replay", &self.replay), ("hot", &self.hot), ("steps10", &self.steps10)]
    }

    fn json(&self) -> serde_json::Map<String, Json> {
        self.named().iter().map(|(name, figure)| ((*name).to_owned(), figure.json())).collect()
    }
}

#[derive(Default)]
pub struct Report {
    pub nodes: usize,
    pub has_database: bool,
    pub clients: usize,
    pub seconds: f64,
    pub raw_http: Figure,
    pub raw_commit: Figure,
    /// The load spread over all nodes.
    pub all: Figures,
    /// The load on one of several.
    pub one: Option<Figures>,
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

/// How much longer the middle of all answers takes.
fn times(slow: &Figure, quick: &Figure) -> f64 {
    f64::from(slow.quantile(0.5)) / f64::from(quick.quantile(0.5).max(1))
}

impl Report {
    /// One node, measured alone.
    fn one(&self) -> &Figures {
        self.one.as_ref().unwrap_or(&self.all)
    }

    fn ratios(&self) -> Vec<(&'static str, f64)> {
        let one = self.one();
        let mut ratios = vec![
            ("fresh / raw_commit", ratio(&one.fresh, &self.raw_commit)),
            ("fresh / raw_http", ratio(&one.fresh, &self.raw_http)),
            ("replay / raw_http", ratio(&one.replay, &self.raw_http)),
            ("hot / raw_http", ratio(&one.hot, &self.raw_http)),
            ("steps10 / fresh", ratio(&one.steps10, &one.fresh)),
        ];
        if self.one.is_some() {
            ratios.extend([
                ("fresh, all / one", ratio(&self.all.fresh, &one.fresh)),
                ("replay, all / one", ratio(&self.all.replay, &one.replay)),
                ("steps10, all / one", ratio(&self.all.steps10, &one.steps10)),
                ("hot time, all / one", times(&self.all.hot, &one.hot)),
            ]);
        }
        ratios
    }

    pub fn floors(&self) -> Vec<Floor> {
        let mut floors = if self.has_database { self.floors_of_database() } else { self.floors_of_file() };
        floors.extend([
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
        ]);
        floors
    }

    fn floors_of_file(&self) -> Vec<Floor> {
        let of_commit = ratio(&self.all.fresh, &self.raw_commit);
        let of_http = ratio(&self.all.fresh, &self.raw_http);
        let replay = ratio(&self.all.replay, &self.raw_http);
        let steps = ratio(&self.all.steps10, &self.all.fresh);
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
        ]
    }

    fn floors_of_database(&self) -> Vec<Floor> {
        let of_commit = ratio(&self.one().fresh, &self.raw_commit);
        let mut floors = vec![Floor {
            name: "fresh",
            rule: "with one node at least 0.5 of raw_commit",
            measured: format!("{of_commit:.2}"),
            met: of_commit >= FRESH_OF_RAW_COMMIT,
        }];
        if let Some(one) = &self.one {
            let fresh = ratio(&self.all.fresh, &one.fresh);
            let hot = times(&self.all.hot, &one.hot);
            floors.push(Floor {
                name: "fresh of all nodes",
                rule: "at least 0.85 of one node",
                measured: format!("{fresh:.2}"),
                met: fresh >= ALL_OF_ONE,
            });
            floors.push(Floor {
                name: "hot over all nodes",
                rule: "answered within 3 times the time of one node",
                measured: format!("{hot:.2} times"),
                met: hot <= HOT_TIMES_MAX,
            });
        }
        floors
    }

    pub fn json(&self) -> Json {
        let mut figures = self.all.json();
        figures.insert("raw_http".to_owned(), self.raw_http.json());
        figures.insert("raw_commit".to_owned(), self.raw_commit.json());
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
        let mut report = json!({
            "nodes": self.nodes,
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
        });
        if let Some(one) = &self.one {
            report["one_node"] = Json::Object(one.json());
        }
        report
    }

    pub fn text(&self) -> String {
        let mut out =
            self.line("", ["per second", "p50 ms", "p99 ms", "cpu us", "db cpu us", "operations"].map(str::to_owned));
        for (name, figure) in [("raw_http", &self.raw_http), ("raw_commit", &self.raw_commit)] {
            out += &self.figure(name, figure);
        }
        let several = self.one.iter().map(|one| (one, ", one node".to_owned()));
        let all = if self.one.is_some() { format!(", {} nodes", self.nodes) } else { String::new() };
        for (figures, whose) in several.chain([(&self.all, all)]) {
            for (name, figure) in figures.named() {
                out += &self.figure(&format!("{name}{whose}"), figure);
            }
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

    fn figure(&self, name: &str, figure: &Figure) -> String {
        let ms = |share| format!("{:.2}", f64::from(figure.quantile(share)) / 1e3);
        let cells = [
            format!("{:.0}", figure.per_second()),
            ms(0.5),
            ms(0.99),
            format!("{:.1}", figure.cpu_us()),
            format!("{:.1}", figure.database_cpu_us()),
            figure.operations().to_string(),
        ];
        self.line(name, cells)
    }

    /// The database's share has a column where there is a database.
    fn line(&self, name: &str, cells: [String; 6]) -> String {
        let [rate, p50, p99, cpu, database, operations] = cells;
        let database = if self.has_database { format!("{database:>12}") } else { String::new() };
        let width = if self.one.is_some() { 20 } else { 12 };
        format!("{name:<width$}{rate:>12}{p50:>12}{p99:>12}{cpu:>12}{database}{operations:>12}\n")
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
        let all = Figures { fresh: figure(300), replay: figure(500), hot: figure(400), steps10: figure(150) };
        let mut report = Report { raw_http: figure(1_000), raw_commit: figure(600), all, ..Report::default() };
        assert!(report.floors().iter().all(|floor| floor.met));
        report.all.fresh = figure(299);
        assert!(!report.floors()[0].met, "less than half of raw_commit and less than 0.4 of raw_http");
        report.raw_http = figure(747);
        assert!(report.floors()[0].met, "the lower of the two limits counts");
        report.all.replay = figure(373);
        assert!(!report.floors()[1].met);
        report.all.steps10 = figure(149);
        assert!(!report.floors()[2].met);
        (report.idle_kib, report.cold_start) = (51 * 1024, Duration::from_millis(1_001));
        assert!(!report.floors()[3].met && !report.floors()[4].met);
        assert_eq!(report.json()["ratios"]["replay / raw_http"], json!(0.499));
        assert!(report.text().contains("MISSED replay is 0.50"), "{}", report.text());
    }
    #[test]
    fn several_nodes_are_held_against_one() {
        let figures = |fresh, hot_us| Figures {
            fresh: figure(fresh),
            hot: Figure::new(vec![hot_us; 9], Duration::from_secs(1)),
            ..Figures::default()
        };
        let met = |report: &Report| report.floors().iter().take(3).map(|floor| floor.met).collect::<Vec<_>>();
        let mut report = Report {
            nodes: 3,
            has_database: true,
            raw_commit: figure(200),
            all: figures(85, 300),
            one: Some(figures(100, 100)),
            ..Report::default()
        };
        assert_eq!(met(&report), [true, true, true]);
        report.raw_commit = figure(201);
        (report.all.fresh, report.all.hot) = (figure(84), Figure::new(vec![301; 9], Duration::from_secs(1)));
        assert_eq!(met(&report), [false, false, false]);
        let text = report.text();
        assert!(text.contains("fresh, one node") && text.contains("fresh, 3 nodes"), "{text}");
        assert_eq!(report.json()["one_node"]["fresh"]["operations"], json!(100));
        report.one = None;
        assert_eq!(report.floors().len(), 3, "one node has nothing to be held against");
    }
}
