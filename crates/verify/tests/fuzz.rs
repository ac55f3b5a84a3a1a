//! Every fuzz target, for a bounded number of inputs, or for `SEMEL_FUZZ_SECONDS` each.

use semel_verify::fuzz::drive::{Effort, Finding, corpus, drive, try_one};
use semel_verify::fuzz::{TARGETS, Target};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// In one process (plain `cargo test`) the targets go one after the other: memory is measured per process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Inputs per target in a normal run, the corpus included: a few seconds each.
fn inputs(target: &Target) -> u64 {
    match target.name {
        "flow_yaml" | "flow_json" | "flow_kestra" | "cron" | "management_request" => 3_000,
        _ => 8_000,
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

/// Keeps the input where it can be looked at, and says how to try it again.
fn explain(target: &Target, seed: u64, finding: &Finding) -> String {
    let file = std::env::temp_dir().join(format!("semel-fuzz-{}-{seed}", target.name));
    let kept = std::fs::write(&file, &finding.input).map(|()| file.display().to_string());
    format!(
        "{} broke (seed {seed}): {}\ninput ({} bytes, kept in {}): {:?}\ncopy the file to crates/verify/fixtures/corpus/{}/ and mend the code",
        target.name,
        finding.what,
        finding.input.len(),
        kept.unwrap_or_else(|error| format!("no file: {error}")),
        String::from_utf8_lossy(&finding.input[..finding.input.len().min(2_000)]),
        target.name,
    )
}

fn run(name: &str) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|broken| broken.into_inner());
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
    let (effort, seed) = match number("SEMEL_FUZZ_SECONDS") {
        Some(seconds) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            (Effort::Time(Duration::from_secs(seconds)), now.as_nanos() as u64)
        }
        None => (Effort::Inputs(inputs(target)), 7),
    };
    let seed = number("SEMEL_FUZZ_SEED").unwrap_or(seed);
    let report = drive(target, seed, effort).unwrap_or_else(|finding| panic!("{}", explain(target, seed, &finding)));
    // One line for whoever adds up a long run.
    println!(
        "soak fuzz target={name} seed={seed} inputs={} bytes={} kinds={} slowest_cpu_ms={} grown_mib={} findings=0",
        report.inputs,
        report.bytes,
        report.kinds,
        report.slowest_cpu_ms,
        report.grown_bytes >> 20,
    );
    assert!(report.kinds >= 4, "{name} sees only {} kinds of behaviour: the inputs do not get far", report.kinds);
}

macro_rules! targets {
    ($($name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )+

        #[test]
        fn every_target_has_its_test_and_its_corpus() {
            let tested = [$(stringify!($name)),+];
            let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(known, tested);
            for target in TARGETS {
                assert!(corpus(target.name).len() >= 5, "{} needs inputs to start from", target.name);
            }
            let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/corpus");
            for entry in std::fs::read_dir(directory).expect("the corpora") {
                let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
                assert!(known.contains(&name.as_str()), "{name} is a corpus without a target");
            }
        }
    };
}

targets!(
    flow_yaml,
    flow_json,
    flow_kestra,
    yaml_data,
    expression,
    template,
    jq,
    cron,
    literals,
    url_guard,
    signature,
    journal,
    snapshot,
    stored_value,
    config_file,
    admission_request,
    management_request,
);

/// One file, as often as needed: `SEMEL_FUZZ_TARGET=jq SEMEL_FUZZ_INPUT=file cargo test -p semel-verify --test fuzz one_input`.
#[test]
fn one_input() {
    let (Ok(name), Ok(file)) = (std::env::var("SEMEL_FUZZ_TARGET"), std::env::var("SEMEL_FUZZ_INPUT")) else { return };
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
    let input = std::fs::read(file).expect("a readable file");
    try_one(target, &input).unwrap_or_else(|finding| panic!("{}", finding.what));
}
