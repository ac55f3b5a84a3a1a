//! Random programs on the oracle and on SQLite: equal answers, equal reads, equal dumps.

use crate::support::{Hands, open};
use semel_core::Millis;
use semel_core::admission::{ClaimState, Decision};
use semel_core::run::Status;
use semel_store::conformance::program::Program;
use semel_store::conformance::same_dump;
use semel_store::memory::MemoryStore;
use semel_store::*;
use std::fmt::Debug;
use std::sync::mpsc::channel;

const START: i64 = 1_700_000_000_000;
const STEPS: usize = 600;
const PROGRAMS_PER_TEST: u64 = 9;

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

fn same<T: Debug>(what: &str, oracle: &dyn Store, store: &dyn Store, read: impl Fn(&dyn Store) -> Result<T>) {
    let (expected, found) = (format!("{:?}", read(oracle)), format!("{:?}", read(store)));
    assert_eq!(found, expected, "{what}");
}

/// One random read of each kind.
fn compare_reads(program: &mut Program, store: &dyn Store, now: Millis) {
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
    same(&format!("{query:?}"), oracle, store, |s| s.runs(&ws, &query));
    let decisions = DecisionQuery {
        run: run.filter(|_| dice.chance(20)),
        key: dice.chance(20).then(|| "k1".into()),
        decisions: if dice.chance(30) { vec![dice.pick(&Decision::ALL)] } else { vec![] },
        before: dice.chance(40).then(|| dice.below(200)),
        limit,
        ..DecisionQuery::default()
    };
    same("decisions", oracle, store, |s| s.decisions(&ws, &decisions));
    let claims = ClaimQuery {
        key: dice.chance(30).then(|| "k1".into()),
        scope: dice.chance(30).then(|| "workspace".into()),
        states: if dice.chance(30) { vec![ClaimState::Live, ClaimState::Erased] } else { vec![] },
        limit,
        ..ClaimQuery::default()
    };
    same("claims", oracle, store, |s| s.claims(&ws, &claims));
    same("active", oracle, store, |s| s.active_runs(run, limit));
    same("timers", oracle, store, |s| Ok((s.due_timers(now, limit)?, s.next_timer()?)));
    same("schedules", oracle, store, |s| Ok((s.due_schedules(now, limit)?, s.next_schedule()?, s.schedules(&ws)?)));
    same("kv", oracle, store, |s| s.kv_list(&ws, "shop", None, limit));
    same("flows", oracle, store, |s| Ok((s.flows(&ws, None, limit)?, s.flows_named(&ws, "order")?)));
    same("secrets", oracle, store, |s| Ok((s.secrets(&ws)?, s.secret(&ws, "db", None)?)));
    if let Some(run) = run {
        same("run", oracle, store, |s| Ok((s.load_run(&ws, run)?, s.run(&ws, run)?, s.effects(&ws, run)?)));
        same("rows of a run", oracle, store, |s| Ok((s.journal(&ws, run, 1, limit)?, s.logs(&ws, run, 0, limit)?)));
    }
    // The second time a twin is answered from what the first has left in memory.
    for _ in 0..4 {
        let request = program.admit();
        same("peek", oracle, store, |s| s.peek(&request));
        same("peek again", oracle, store, |s| s.peek(&request));
    }
}

fn run_program(seed: u64) {
    println!("seed {seed}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("semel.db");
    let hands = Hands::at(START);
    let oracle = MemoryStore::new(hands.clock());
    let mut store = open(&path, hands.clock());
    let mut program = Program::new(seed, &*oracle);
    let mut steps = 0;
    while steps < STEPS {
        let count = 1 + program.dice.below(24) as usize;
        let works: Vec<Work> = (0..count).map(|_| program.work()).collect();
        let (expected, found) = (submit(&*oracle, &works), submit(&*store, &works));
        for (work, (expected, found)) in works.iter().zip(expected.iter().zip(&found)) {
            assert_eq!(found, expected, "seed {seed}, step {steps}: {work:?}");
            steps += 1;
        }
        let now = oracle.now();
        assert_eq!(store.now(), now);
        compare_reads(&mut program, &*store, now);
        hands.pass(jump(&mut program));
        if program.dice.chance(3) {
            drop(store);
            store = open(&path, hands.clock());
        }
        if program.dice.chance(4) {
            same_dump(&oracle.dump().unwrap(), &store.dump().unwrap());
        }
    }
    same_dump(&oracle.dump().unwrap(), &store.dump().unwrap());
    assert_eq!(store.health(), Ok(()));
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

fn run_programs(first: u64) {
    // A failing seed is in the message; `SEMEL_SEED=n` runs that one alone.
    if let Ok(seed) = std::env::var("SEMEL_SEED") {
        return run_program(seed.parse().expect("a number"));
    }
    // A long run looks at other programs each time.
    let offset: u64 = std::env::var("SEMEL_DIFFERENTIAL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    (first + offset..first + offset + PROGRAMS_PER_TEST).for_each(run_program);
    println!("SUMMARY differential first={} steps={}", first + offset, PROGRAMS_PER_TEST as usize * STEPS);
}

#[test]
fn programs_0() {
    run_programs(0);
}

#[test]
fn programs_1() {
    run_programs(1_000);
}

#[test]
fn programs_2() {
    run_programs(2_000);
}

#[test]
fn programs_3() {
    run_programs(3_000);
}

/// A comparison proves little about what the programs never do.
#[test]
fn programs_reach_every_reason() {
    let mut reached = std::collections::BTreeSet::new();
    for seed in 0..30 {
        let hands = Hands::at(START);
        let oracle = MemoryStore::new(hands.clock());
        let mut program = Program::new(seed, &*oracle);
        for _ in 0..STEPS {
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
    let expected = "keyless key_missing first late_duplicate late_warned late_rejected attached_pending attached \
        attached_mismatch in_progress payload_mismatch held held_mismatch replayed replayed_mismatch replayed_failure \
        replayed_cancelled already_done already_failed already_cancelled rerun retry_failed retry_cancelled resumed \
        resumed_mismatch erased queued queue_full replaced replace_deferred held_no_replace coalesced coalesce_pending \
        delivered lane_busy lane_cancelled lane_failed run_live doubt_open exists missing conflict store_bug";
    let missed: Vec<&str> = expected.split_whitespace().filter(|word| !reached.contains(*word)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}; reached: {reached:?}");
}
