//! Feeds a target, and judges it.

use super::mutate::Mutator;
use super::{INPUT_BYTES_MAX, Target};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// CPU time of one input. The promise is 100 ms with optimisation on a machine of today; a build without it is
/// 10 to 30 times slower, and what this must catch (a step that is quadratic, a loop without end) is slower still.
const CPU_MS_MAX: u64 = if cfg!(debug_assertions) { 4_000 } else { 400 };
/// How much the process may grow beyond what it had before the first input.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// An input that is still being read after this is a loop without end.
const PATIENCE: Duration = Duration::from_secs(120);
/// Inputs that did something new, kept to be changed further. Small ones: large ones are slow to search with.
const POOL_MAX: usize = 4_000;
const POOL_BYTES_MAX: usize = 8 * 1024;

/// How long to look.
#[derive(Clone, Copy, Debug)]
pub enum Effort {
    Inputs(u64),
    Time(Duration),
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub inputs: u64,
    pub bytes: u64,
    /// Kinds of behaviour seen.
    pub kinds: usize,
    pub slowest_cpu_ms: u64,
    pub grown_bytes: u64,
}

/// A property that does not hold, with the input that shows it.
#[derive(Debug)]
pub struct Finding {
    pub what: String,
    pub input: Vec<u8>,
}

fn corpus_dir(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/corpus").join(target)
}

/// The committed inputs of a target, in the order of their names.
pub fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(corpus_dir(target)) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    files.sort();
    files
        .into_iter()
        .filter_map(|path| {
            let bytes = std::fs::read(&path).ok()?;
            Some((path.file_name()?.to_string_lossy().into_owned(), bytes))
        })
        .collect()
}

/// Tries the corpus, then mutations of it. Stops at the first finding.
pub fn drive(target: &'static Target, seed: u64, effort: Effort) -> Result<Report, Finding> {
    let mut judge = Judge::new(target);
    let committed: Vec<Vec<u8>> = corpus(target.name).into_iter().map(|(_, bytes)| bytes).collect();
    let began = Instant::now();
    let mut pool: Vec<Vec<u8>> = Vec::new();
    let mut kinds = BTreeSet::new();
    for input in &committed {
        kinds.insert(judge.try_input(input)?);
        pool.push(input.clone());
    }
    if pool.is_empty() {
        pool.push(Vec::new());
    }
    let mut mutator = Mutator::new(seed, target.words, &committed, INPUT_BYTES_MAX);
    loop {
        let enough = match effort {
            Effort::Inputs(count) => judge.report.inputs >= count,
            Effort::Time(time) => began.elapsed() >= time,
        };
        if enough {
            break;
        }
        // The newest are the deepest; look at them as often as at all others together.
        let recent = pool.len().saturating_sub(64);
        let from = if mutator.chance.below(2) == 0 { recent } else { 0 };
        let at = from + mutator.chance.below(pool.len() - from);
        let other = mutator.chance.below(pool.len());
        let input = mutator.mutate(&pool[at], &pool[other]);
        if kinds.insert(judge.try_input(&input)?) && input.len() <= POOL_BYTES_MAX && pool.len() < POOL_MAX {
            pool.push(input);
        }
    }
    judge.report.kinds = kinds.len();
    Ok(judge.report)
}

/// Tries one input on its own.
pub fn try_one(target: &'static Target, input: &[u8]) -> Result<u64, Finding> {
    Judge::new(target).try_input(input)
}

/// Runs inputs on a thread of its own, so that a loop without end can be named.
struct Judge {
    inputs: mpsc::Sender<Vec<u8>>,
    outcomes: mpsc::Receiver<Tried>,
    memory_before: u64,
    trace: bool,
    report: Report,
}

struct Tried {
    outcome: Result<u64, String>,
    cpu: Duration,
}

impl Judge {
    fn new(target: &'static Target) -> Judge {
        let (inputs, arrived) = mpsc::channel::<Vec<u8>>();
        let (done, outcomes) = mpsc::channel();
        // As much stack as the server's own threads have.
        let worker = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
            // What is set up once (tables, zones, a server) is not the input's doing.
            let _ = catch_unwind(|| (target.run)(b""));
            if done.send(Tried { outcome: Ok(0), cpu: Duration::ZERO }).is_err() {
                return;
            }
            for input in arrived {
                let before = cpu_time();
                let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).map_err(|panic| said(&*panic));
                if done.send(Tried { outcome, cpu: cpu_time().saturating_sub(before) }).is_err() {
                    return;
                }
            }
        });
        worker.expect("a thread");
        // The set-up above.
        let _ = outcomes.recv();
        let trace = std::env::var_os("SEMEL_FUZZ_TRACE").is_some();
        Judge { inputs, outcomes, memory_before: peak_memory(), trace, report: Report::default() }
    }

    fn try_input(&mut self, input: &[u8]) -> Result<u64, Finding> {
        if self.trace {
            let path = std::env::temp_dir().join("semel-fuzz-input");
            std::fs::write(path, input).expect("a place for the input");
        }
        let found = |what: String| Finding { what, input: input.to_vec() };
        self.inputs.send(input.to_vec()).map_err(|_| found("the thread is gone".into()))?;
        let tried = self.outcomes.recv_timeout(PATIENCE).map_err(|_| found(format!("no end within {PATIENCE:?}")))?;
        self.report.inputs += 1;
        self.report.bytes += input.len() as u64;
        let cpu_ms = tried.cpu.as_millis() as u64;
        self.report.slowest_cpu_ms = self.report.slowest_cpu_ms.max(cpu_ms);
        let kind = tried.outcome.map_err(|panic| found(format!("panic: {panic}")))?;
        if cpu_ms > CPU_MS_MAX {
            return Err(found(format!("{cpu_ms} ms of CPU for {} bytes", input.len())));
        }
        self.report.grown_bytes = peak_memory().saturating_sub(self.memory_before);
        if self.report.grown_bytes > MEMORY_BYTES_MAX {
            return Err(found(format!("the process grew by {} MiB", self.report.grown_bytes >> 20)));
        }
        Ok(kind)
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("(no text)").to_owned()
}

/// Time this thread has had on a processor; zero where the system does not say.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// The most memory the process has had; zero where the system does not say.
fn peak_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(run: fn(&[u8]) -> u64) -> &'static Target {
        Box::leak(Box::new(Target { name: "planted", words: &["magic"], run }))
    }

    #[test]
    fn a_planted_panic_is_found_with_its_input() {
        let target = planted(|input| {
            let text = String::from_utf8_lossy(input).into_owned();
            assert!(!(text.contains("magic") && text.contains("[[[[")), "planted");
            u64::from(text.contains("magic"))
        });
        let finding = drive(target, 7, Effort::Inputs(50_000)).expect_err("the bug");
        assert!(finding.what.contains("planted"), "{}", finding.what);
        assert!(try_one(target, &finding.input).is_err(), "the input shows it again");
    }

    #[test]
    fn planted_growth_is_found() {
        let target = planted(|input| {
            let mut hoard = vec![0u8; if input.len() > 10 { 200 << 20 } else { 0 }];
            hoard.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
            hoard.iter().map(|byte| u64::from(*byte)).sum::<u64>().min(1)
        });
        let finding = drive(target, 7, Effort::Inputs(5_000)).expect_err("the growth");
        assert!(finding.what.contains("grew"), "{}", finding.what);
    }

    #[test]
    fn planted_slowness_is_found() {
        let target = planted(|input| {
            let began = cpu_time();
            while input.len() > 10 && cpu_time() - began < Duration::from_millis(CPU_MS_MAX + 100) {}
            0
        });
        let finding = drive(target, 7, Effort::Inputs(5_000)).expect_err("the slowness");
        assert!(finding.what.contains("CPU"), "{}", finding.what);
    }
}
