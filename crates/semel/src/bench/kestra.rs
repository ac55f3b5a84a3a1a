//! The flows of Kestra's published benchmark, at Kestra's own addresses.
//!
//! | figure | what one execution is | published for Kestra 1.2 (4 vCPU, and as much for its PostgreSQL) |
//! |---|---|---|
//! | `two_tasks` | a webhook, then OutputValues and Log | up to 25 executions a second, 0.26 s each at that rate |
//! | `five_ifs` | five If tasks, each with a Log: ten task runs | 5 a second at 0.8 s each, 8 a second at 15 s |
//! | `foreach100` | a ForEach over 100 values, all at once | one takes 5 s: about 40 task runs a second |
//!
//! The webhooks wait, so that an execution is answered, and counted, when it has ended and its end is durable.

use super::figure::Figure;
use super::load::{Keys, Shape, To};
use super::{Bench, Options, prepared};
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::process::Process;
use serde_json::{Value as Json, json};
use std::fmt::Write;

struct Case {
    name: &'static str,
    source: &'static str,
    /// Task runs of one execution, groups included, as Kestra counts them.
    task_runs: u32,
    /// Executions a second that Kestra's own figures end at.
    published: f64,
}

const CASES: [Case; 3] = [
    Case { name: "two_tasks", source: include_str!("kestra/two_tasks.yaml"), task_runs: 2, published: 25.0 },
    Case { name: "five_ifs", source: include_str!("kestra/five_ifs.yaml"), task_runs: 10, published: 500.0 / 60.0 },
    Case { name: "foreach100", source: include_str!("kestra/foreach100.yaml"), task_runs: 101, published: 0.2 },
];

pub fn run(options: Options, shell: &Shell) -> Result<Reply, Failure> {
    if options.runs > 0 || options.nodes > 1 || options.check {
        let failure = Failure::usage("`bench kestra` takes --store, --seconds and --clients only");
        return Err(failure.hint("semel bench kestra --seconds 10 --clients 32"));
    }
    prepared(&options, shell, |bench| {
        let server = bench.start(0)?;
        bench.push(&server, &CASES.map(|case| case.source))?;
        let figures =
            CASES.iter().map(|case| measure(bench, &server, case)).collect::<Result<Vec<Figure>, Failure>>()?;
        bench.end(server)?;
        Ok(Reply::new(report(&figures, &options), text(&figures)))
    })
}

fn measure(bench: &Bench<'_>, server: &Process, case: &Case) -> Result<Figure, Failure> {
    bench.say(&format!("{}: executions of {} task runs", case.name, case.task_runs));
    let shape = Shape {
        addresses: vec![server.address],
        token: None,
        to: To::KestraWebhook(case.name),
        wait: true,
        keys: Keys::Fresh(format!("{}-{}", case.name, bench.tag)),
        replayed: None,
    };
    let mut figure = Figure::default();
    for _ in 0..super::ROUNDS {
        figure.add(bench.load(&shape, &[server])?);
    }
    Ok(figure)
}

fn task_runs_per_second(case: &Case, figure: &Figure) -> f64 {
    figure.per_second() * f64::from(case.task_runs)
}

fn report(figures: &[Figure], options: &Options) -> Json {
    let mut cases = serde_json::Map::new();
    for (case, figure) in CASES.iter().zip(figures) {
        let mut json = figure.json();
        json["task_runs_per_second"] = json!(task_runs_per_second(case, figure).round());
        json["published_per_second"] = json!((case.published * 10.0).round() / 10.0);
        cases.insert(case.name.to_owned(), json);
    }
    json!({"clients": options.clients, "seconds": options.seconds, "figures": cases})
}

fn text(figures: &[Figure]) -> String {
    let mut out = format!(
        "{:<12}{:>12}{:>12}{:>12}{:>12}{:>14}{:>22}\n",
        "", "executions/s", "p50 ms", "p99 ms", "cpu us", "task runs/s", "Kestra, as published"
    );
    for (case, figure) in CASES.iter().zip(figures) {
        let ms = |share| f64::from(figure.quantile(share)) / 1e3;
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{:<12}{:>12.0}{:>12.2}{:>12.2}{:>12.1}{:>14.0}{:>20.1}/s",
            case.name,
            figure.per_second(),
            ms(0.5),
            ms(0.99),
            figure.cpu_us(),
            task_runs_per_second(case, figure),
            case.published,
        );
    }
    out + "\nKestra's figures are its vendor's, on 4 vCPU with a database machine beside it; these are of this machine.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn executions_are_told_in_task_runs_and_beside_what_was_published() {
        let figures: Vec<Figure> = CASES.map(|_| Figure::new(vec![100; 50], Duration::from_secs(1))).into();
        let options = Options { store: None, seconds: 1.0, clients: 2, runs: 0, nodes: 1, check: false };
        let json = report(&figures, &options);
        assert_eq!(json["figures"]["five_ifs"]["task_runs_per_second"], json!(500.0));
        assert_eq!(json["figures"]["foreach100"]["task_runs_per_second"], json!(5_050.0));
        assert_eq!(json["figures"]["two_tasks"]["published_per_second"], json!(25.0));
        assert!(text(&figures).contains("foreach100"));
    }
}
