//! `semel bench`: every figure is there, and every answer was the one that was measured for.

use crate::program::semel_in;

fn figures(args: &[&str]) -> serde_json::Value {
    let directory = tempfile::tempdir().unwrap();
    let ran = semel_in(directory.path(), &[args, &["--seconds", "1", "--clients", "2", "--json"]].concat());
    assert_eq!(ran.code, 0, "{} {}", ran.stdout, ran.stderr);
    ran.json()["data"]["figures"].clone()
}

#[test]
fn the_flows_of_kestra_s_benchmark_succeed() {
    let figures = figures(&["bench", "kestra"]);
    for name in ["two_tasks", "five_ifs", "foreach100"] {
        assert!(figures[name]["operations"].as_u64().is_some_and(|count| count > 0), "{name}: {figures}");
    }
}

#[test]
fn what_is_measured_stands_beside_its_limits() {
    let figures = figures(&["bench"]);
    for name in ["fresh", "replay", "hot", "steps10", "raw_http", "raw_commit"] {
        assert!(figures[name]["per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{name}: {figures}");
    }
}
