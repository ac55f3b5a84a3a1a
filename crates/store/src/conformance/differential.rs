//! Random programs on the oracle and on other stores: equal answers, equal reads, equal dumps.

use super::program::Program;
use super::same_dump;
use crate::memory::MemoryStore;
use crate::*;
use semel_core::Millis;
use semel_core::admission::{ClaimState, Decision};
use semel_core::run::Status;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::channel;

const START: i64 = 1_700_000_000_000;

/// Opens a store that is compared with the oracle: an empty one first, and what it has become each time after.
pub type Open<'a> = &'a dyn Fn(ClockFn) -> Arc<dyn Store>;

/// A clock that tests set.
struct Hands(Arc<AtomicI64>);

impl Hands {
    fn new() -> Hands {
        Hands(Arc::new(AtomicI64::new(START)))
    }

    fn clock(&self) -> ClockFn {
        let read = self.0.clone();
        Arc::new(move || Millis(read.load(Ordering::Relaxed)))
    }

    fn pass(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

/// Errors are compared by their code: each store words them in its own way.
fn text(answer: &Result<Done>) -> String {
    match answer {
        Ok(done) => format!("{done:?}"),
        Err(error) => format!("error {}", error.code()),
    }
}

/// Submits all at once, so that they share transactions.
fn submit(store: &dyn Store, works: &[Work]) -> Vec<String> {
    let (tx, rx) = channel();
    for work in works {
        let tx = tx.clone();
        store.submit(work.clone(), Box::new(move |answer| tx.send(text(&answer)).expect("the test waits")));
    }
    // Answers come in order of submission.
    rx.iter().take(works.len()).collect()
}

fn same<T: Debug>(what: &str, oracle: &dyn Store, stores: &[Arc<dyn Store>], read: impl Fn(&dyn Store) -> Result<T>) {
    let expected = format!("{:?}", read(oracle));
    for store in stores {
        assert_eq!(format!("{:?}", read(&**store)), expected, "{what}");
    }
}

/// One random read of each kind.
fn compare_reads(program: &mut Program, stores: &[Arc<dyn Store>], now: Millis) {
    let oracle = program.oracle;
    let ws = program.workspace();
    let limit = 1 + program.dice.below(6) as u32;
    let run = program.runs.get(program.dice.below(program.runs.len().max(1) as u64) as usize).map(|(_, run)| *run);
    let dice = &mut program.dice;
    let status = [dice.pick(&Status::ALL), dice.pick(&Status::ALL)];
    let query = RunQuery {
        namespace: dice.chance(30).then(|| "shop".into()),
        flow_id: dice.chance(30).then(|| "order".into()),
        statuses: status[..dice.below(3) as usize].to_vec(),
        labels: if dice.chance(30) { vec![("team".into(), "red".into())] } else { vec![] },
        key: dice.chance(20).then(|| "k1".into()),
        correlation_id: dice
            .chance(20)
            .then(|| dice.pick(&["batch".to_owned(), run.map_or(String::new(), |r| r.to_string())])),
        parent: run.filter(|_| dice.chance(10)),
        created_from: dice.chance(10).then(|| now.plus(-50)),
        created_to: dice.chance(10).then_some(now),
        before: run.filter(|_| dice.chance(30)),
        limit,
    };
    same(&format!("{query:?}"), oracle, stores, |s| s.runs(&ws, &query));
    let decisions = DecisionQuery {
        run: run.filter(|_| dice.chance(20)),
        key: dice.chance(20).then(|| "k1".into()),
        decisions: if dice.chance(30) { vec![dice.pick(&Decision::ALL)] } else { vec![] },
        before: dice.chance(40).then(|| dice.below(200)),
        limit,
        ..DecisionQuery::default()
    };
    same("decisions", oracle, stores, |s| s.decisions(&ws, &decisions));
    let claims = ClaimQuery {
        key: dice.chance(30).then(|| "k1".into()),
        scope: dice.chance(30).then(|| "workspace".into()),
        states: if dice.chance(30) { vec![ClaimState::Live, ClaimState::Erased] } else { vec![] },
        limit,
        ..ClaimQuery::default()
    };
    same("claims", oracle, stores, |s| s.claims(&ws, &claims));
    same("active", oracle, stores, |s| s.active_runs(run, limit));
    same("timers", oracle, stores, |s| Ok((s.due_timers(now, limit)?, s.next_timer()?)));
    same("schedules", oracle, stores, |s| Ok((s.due_schedules(now, limit)?, s.next_schedule()?, s.schedules(&ws)?)));
    same("changes", oracle, stores, |s| s.changes(now, limit));
    same("kv", oracle, stores, |s| s.kv_list(&ws, "shop", None, limit));
    same("flows", oracle, stores, |s| Ok((s.flows(&ws, None, limit)?, s.flows_named(&ws, "order")?)));
    same("secrets", oracle, stores, |s| Ok((s.secrets(&ws)?, s.secret(&ws, "db", None)?)));
    if let Some(run) = run {
        same("run", oracle, stores, |s| Ok((s.load_run(&ws, run)?, s.run(&ws, run)?, s.effects(&ws, run)?)));
        same("rows of a run", oracle, stores, |s| Ok((s.journal(&ws, run, 1, limit)?, s.logs(&ws, run, 0, limit)?)));
    }
    // The second time a twin is answered from what the first has left in memory.
    for _ in 0..4 {
        let request = program.admit();
        same("peek", oracle, stores, |s| s.peek(&request));
        same("peek again", oracle, stores, |s| s.peek(&request));
    }
}

/// Runs one program of about so many writes.
pub fn run_program(seed: u64, steps_max: usize, rivals: &[Open]) {
    println!("seed {seed}");
    let hands = Hands::new();
    let oracle = MemoryStore::new(hands.clock());
    let mut stores: Vec<Arc<dyn Store>> = rivals.iter().map(|open| open(hands.clock())).collect();
    let mut program = Program::new(seed, &*oracle);
    let mut steps = 0;
    while steps < steps_max {
        let count = 1 + program.dice.below(24) as usize;
        let works: Vec<Work> = (0..count).map(|_| program.work()).collect();
        let expected = submit(&*oracle, &works);
        for store in &stores {
            let found = submit(&**store, &works);
            for (at, (work, (expected, found))) in works.iter().zip(expected.iter().zip(&found)).enumerate() {
                assert_eq!(found, expected, "seed {seed}, step {}: {work:?}", steps + at);
            }
        }
        steps += count;
        let now = oracle.now();
        stores.iter().for_each(|store| assert_eq!(store.now(), now));
        compare_reads(&mut program, &stores, now);
        hands.pass(jump(&mut program));
        if program.dice.chance(3) {
            stores.clear();
            stores = rivals.iter().map(|open| open(hands.clock())).collect();
        }
        if program.dice.chance(4) {
            stores.iter().for_each(|store| same_dump(&oracle.dump().unwrap(), &store.dump().unwrap()));
        }
    }
    for store in &stores {
        same_dump(&oracle.dump().unwrap(), &store.dump().unwrap());
        assert_eq!(store.health(), Ok(()));
    }
}

/// Mostly a few milliseconds; sometimes past every window; sometimes back.
fn jump(program: &mut Program) -> i64 {
    const DAY_MS: i64 = 86_400_000;
    match program.dice.below(40) {
        0 => 31 * DAY_MS,
        1 => 130 * DAY_MS,
        2 => -(program.dice.below(50) as i64),
        3 => 3_600_000,
        _ => program.dice.below(12) as i64,
    }
}

/// What programs of so many writes come to, by the words of their answers: a comparison proves little about what they
/// never do.
pub fn reached(seeds: std::ops::Range<u64>, steps: usize) -> std::collections::BTreeSet<String> {
    let mut reached = std::collections::BTreeSet::new();
    for seed in seeds {
        let hands = Hands::new();
        let oracle = MemoryStore::new(hands.clock());
        let mut program = Program::new(seed, &*oracle);
        for _ in 0..steps {
            let work = program.work();
            let answer = match oracle.call(work) {
                Ok(Done::Admitted(admitted)) => admitted.reason.word().to_owned(),
                Ok(Done::Refused(refusal)) => refusal.code().to_owned(),
                Ok(Done::Missing) => "missing".to_owned(),
                Ok(_) => continue,
                Err(error) => error.code().to_owned(),
            };
            reached.insert(answer);
            hands.pass(jump(&mut program));
        }
    }
    reached
}
