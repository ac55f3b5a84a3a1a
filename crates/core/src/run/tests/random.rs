//! Random flows × random scripts of outcomes, crashes and requests of people.

use super::audit;
use super::flows::*;
use super::world::{Answer, World, by, child_id, payload};
use crate::ir::*;
use crate::run::*;
use proptest::prelude::*;

/// Decisions are read off a tape of bytes, so that a failing case shrinks well.
struct Tape<'a> {
    bytes: &'a [u8],
    at: usize,
    tasks: u32,
}

impl Tape<'_> {
    /// 0 when the tape is spent: the simplest choice.
    fn pick(&mut self, choices: u8) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte % choices
    }

    fn list(&mut self, depth: u32, least: u8, most: u8) -> Vec<Task> {
        let count = least + self.pick(most - least + 1);
        (0..count).map(|_| self.task(depth)).collect()
    }

    fn task(&mut self, depth: u32) -> Task {
        self.tasks += 1;
        let id = format!("t{}", self.tasks);
        let deep = depth < 4 && self.tasks < 24;
        let mut task = match self.pick(if deep { 19 } else { 9 }) {
            0 => inline(&id),
            1 => read(&id),
            2 | 3 => keyed(&id),
            4 | 5 => naked(&id),
            6 => op(&id),
            7 => sleep(&id, 5_000),
            8 => subflow(&id).with(|t| {
                t.timeout_ms = (self.pick(2) == 1).then_some(20_000);
                if let TaskKind::Subflow(spec) = &mut t.kind {
                    spec.wait = self.pick(3) > 0;
                    spec.transmit_failed = self.pick(2) == 0;
                }
            }),
            9 => seq(&id, self.list(depth + 1, 0, 3)),
            10 => parallel(&id, u32::from(self.pick(3)), self.list(depth + 1, 0, 4)),
            11 => each(&id, u32::from(self.pick(5)), u32::from(self.pick(3)), self.list(depth + 1, 1, 2)),
            12 => branch(&id, self.pick(2) == 0, self.list(depth + 1, 0, 2), self.list(depth + 1, 0, 2)),
            13 => switch(&id, "a", vec![("a", self.list(depth + 1, 0, 2))], None),
            14 => tolerant(&id, self.list(depth + 1, 0, 3)),
            15 => until(&id, 1 + u32::from(self.pick(3)), self.list(depth + 1, 1, 2)),
            16 => rounds(&id, u32::from(self.pick(4)), u32::from(self.pick(3)), self.list(depth + 1, 1, 2)),
            17 => {
                let mut tasks: Vec<(Task, &[&str])> = Vec::new();
                tasks.extend(self.list(depth + 1, 1, 4).into_iter().map(|task| (task, [].as_slice())));
                let mut made = dag(&id, u32::from(self.pick(3)), tasks);
                if let TaskKind::Dag { depends, group, .. } = &mut made.kind {
                    // On any of those before.
                    for (n, task) in group.tasks.iter().enumerate().skip(1) {
                        let needed = usize::from(self.pick(4)) % n;
                        depends.insert(task.id.clone(), vec![group.tasks[needed].id.clone()]);
                    }
                }
                made
            }
            _ => {
                let late = [OnTime::Resume, OnTime::Warn][usize::from(self.pick(2))];
                let (before, after) = (self.list(depth + 1, 0, 1), self.list(depth + 1, 0, 2));
                pause(&id, i64::from(self.pick(2)) * 9_000, late).around(before, after)
            }
        };
        if task.kind.handlers().is_some() {
            if self.pick(3) == 1 {
                task = task.errors(self.list(depth + 1, 0, 2));
            }
            if self.pick(3) == 1 {
                task = task.finally(self.list(depth + 1, 0, 2));
            }
        }
        match self.pick(8) {
            1 => task.allow_failure = true,
            2 => task.allow_warning = true,
            3 | 4 => task = task.retried(3, 10_000),
            5 => task.effect.on_doubt = OnDoubt::Fail,
            6 => task.effect.on_doubt = OnDoubt::Repeat,
            _ => {}
        }
        task
    }

    fn flow(&mut self) -> Flow {
        let mut flow = flow(self.list(1, 1, 4));
        if self.pick(3) == 1 {
            flow.errors = self.list(2, 1, 2);
        }
        if self.pick(3) == 1 {
            flow.finally = self.list(2, 1, 2);
        }
        if self.pick(3) == 1 {
            flow.retry = Some(retry(3, 30_000));
        }
        flow
    }
}

/// One thing that happens to the run: `what` chooses the kind, `which` the details.
fn happen(world: &mut World, what: u8, which: u8, seen: &mut Vec<Input>) {
    match what % 24 {
        0..=9 => answer_one(world, which, seen),
        10 | 11 => {
            world.fire_next();
        }
        12 => world.crash(),
        13 => {
            // An op commits, and the process dies before anyone goes on from there.
            let op = world.pending.iter().position(|action| matches!(action, Action::Op(_)));
            if let Some(Action::Op(step)) = op.and_then(|at| world.pending.remove(at))
                && matches!(
                    world.state.steps.get(&step).map(|s| &s.work),
                    Some(Work::Op | Work::Child { run: None, .. })
                )
            {
                world.carry_op(&step, which.is_multiple_of(3));
                world.crash();
            }
        }
        14 => drop(world.input(Input::Pause { by: by() })),
        15 => drop(world.input(Input::Resume { by: by() })),
        16 => {
            let paused = world.state.paused_steps();
            if let Some(step) = paused.get(usize::from(which) % paused.len().max(1)).cloned() {
                drop(world.input(Input::ResumeStep { step, by: by(), inputs: None, review: None }));
            }
        }
        17 if which.is_multiple_of(3) => drop(world.input(Input::Cancel { by: by() })),
        17 if which.is_multiple_of(5) => {
            world.replaced();
        }
        18 if which.is_multiple_of(3) => ask(world, which / 3),
        18 => drop(world.input(Input::Restart { by: by() })),
        19 => {
            let tasks = &world.index.flow.tasks;
            let from = tasks.get(usize::from(which) % (tasks.len() + 1)).map(|t| t.id.clone());
            if which.is_multiple_of(4) {
                drop(world.input(Input::Replay { by: by(), from }));
            }
        }
        20 => decide_one_doubt(world, which),
        21 => world.now = world.now.plus(if which.is_multiple_of(2) { 1_000 } else { 70_000 }),
        22 => {
            // A stale or doubled message.
            if let Some(input) = seen.get(usize::from(which) % seen.len().max(1)).cloned() {
                world.must(input);
            }
        }
        _ => end_a_child(world, which),
    }
}

/// A person asks for something; that it can be refused is part of it.
fn ask(world: &mut World, which: u8) {
    let steps: Vec<StepKey> = world
        .journal
        .iter()
        .filter_map(|event| match event {
            Event::StepStarted { step, .. } => Some(step.clone()),
            _ => None,
        })
        .collect();
    let step = steps.get(usize::from(which) % steps.len().max(1));
    let tasks = &world.index.flow.tasks;
    let task = tasks.get(usize::from(which) % tasks.len().max(1)).map(|task| task.id.clone()).unwrap_or_default();
    let wish = match which % 6 {
        0 => Wish::Pause,
        1 => Wish::Resume,
        2 => Wish::Terminate { failure: Failure::new(TERMINATED, "enough") },
        3 => Wish::Retry { anew: which.is_multiple_of(2) },
        4 => Wish::Jump { task, input: None },
        _ => match step.map(|step| back_to(&world.index, &world.journal, step)) {
            Some(Ok(back)) => Wish::Redo(Box::new(Redo { back: Some(back), ..Redo::default() })),
            _ => Wish::Redo(Box::default()),
        },
    };
    drop(world.input(Input::Wish { wish, by: by() }));
}

fn answer_one(world: &mut World, which: u8, seen: &mut Vec<Input>) {
    if world.pending.is_empty() {
        return end_a_child(world, which);
    }
    let at = usize::from(which / 16) % world.pending.len();
    let Some(action) = world.pending.remove(at) else { return };
    // An op or an evaluation of a step that has ended meanwhile is dropped by its transaction.
    if let Action::Op(step) = &action
        && !matches!(world.state.steps.get(step).map(|s| &s.work), Some(Work::Op | Work::Child { run: None, .. }))
    {
        return;
    }
    let answer = match which % 16 {
        0..=6 => Answer::Good,
        7 => Answer::Skip,
        8 => Answer::BadExpression,
        9..=11 => Answer::Fail,
        _ => Answer::Lost,
    };
    if let Action::Perform { step, send } = &action {
        let (step, send) = (step.clone(), *send);
        seen.push(Input::Performed { step, send, outcome: Performed::Done { output: payload("stale") } });
    }
    world.answer_with(&action, answer);
}

fn open_children(world: &World) -> Vec<crate::ids::RunId> {
    let children = world.state.steps.values().filter_map(|step| match step.work {
        Work::Child { run, .. } => run,
        _ => None,
    });
    children.collect()
}

fn end_a_child(world: &mut World, which: u8) {
    let children = open_children(world);
    let status = [EndStatus::Completed, EndStatus::Failed, EndStatus::Cancelled][usize::from(which) % 3];
    match children.get(usize::from(which) % children.len().max(1)) {
        Some(run) => {
            let doubts = u32::from(which % 5 == 1);
            world.must(Input::ChildEnded {
                run: *run,
                status,
                conclusion: None,
                warned: false,
                outputs: payload("child"),
                doubts,
            });
        }
        None if which.is_multiple_of(7) => {
            world.must(Input::DoubtsBelow { run: child_id(1), count: u32::from(which % 2) });
        }
        None => {}
    }
}

fn decide_one_doubt(world: &mut World, which: u8) {
    let open: Vec<StepKey> =
        world.state.doubts.iter().filter(|(_, d)| d.verdict.is_none()).map(|(k, _)| k.clone()).collect();
    let kinds = [VerdictKind::Done, VerdictKind::Repeat, VerdictKind::RepeatNewKey, VerdictKind::Fail];
    if let Some(step) = open.get(usize::from(which / 4) % open.len().max(1)) {
        world.verdict(&step.0, kinds[usize::from(which % 4)]).expect("the doubt is open");
    }
}

/// Faults have stopped: every answer is good, children end well, and the clock runs.
fn heal(world: &mut World) {
    if world.state.phase == Phase::Waiting {
        world.must(Input::Start);
    }
    if world.state.paused {
        world.must(Input::Resume { by: by() });
    }
    for _ in 0..5_000 {
        world.answer_all();
        // A run that was replaced ended with its steps open, and what its children do is no business of it any more.
        let children = if world.state.is_ended() { vec![] } else { open_children(world) };
        for run in &children {
            world.must(Input::ChildEnded {
                run: *run,
                status: EndStatus::Completed,
                conclusion: None,
                warned: false,
                outputs: payload("child"),
                doubts: 0,
            });
        }
        let paused = world.state.paused_steps().first().cloned().filter(|_| world.state.phase == Phase::Open);
        if let Some(step) = paused.clone() {
            world.must(Input::ResumeStep { step, by: by(), inputs: None, review: None });
        }
        if children.is_empty() && paused.is_none() && !world.fire_next() {
            assert!(world.pending.is_empty());
            return audit::at_rest(&world.state);
        }
    }
    panic!("the run does not come to rest: {:#?}", world.state);
}

/// A person settles all doubts; then nothing but an end is left.
fn settle(world: &mut World, which: u8) {
    for round in 0..64u8 {
        let below: Vec<_> = world.state.doubts_below.keys().copied().collect();
        for run in below {
            world.must(Input::DoubtsBelow { run, count: 0 });
        }
        decide_one_doubt(world, which.wrapping_add(round));
        heal(world);
        if world.state.open_doubts() == 0 {
            assert!(world.status().is_ended(), "{:#?}", world.state);
            return;
        }
    }
    panic!("doubts do not end: {:#?}", world.state);
}

fn run_case(tape: &[u8], script: &[(u8, u8)]) -> World {
    let flow = Tape { bytes: tape, at: 0, tasks: 0 }.flow();
    let mut world = World::new(flow).start();
    let mut seen = Vec::new();
    for (what, which) in script {
        happen(&mut world, *what, *which, &mut seen);
    }
    heal(&mut world);
    settle(&mut world, script.len() as u8);
    if !matches!(world.state.phase, Phase::Ended(EndStatus::Completed)) {
        world.must(Input::Restart { by: by() });
        heal(&mut world);
        assert_eq!(world.state.phase, Phase::Ended(EndStatus::Completed), "without faults a restart completes");
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_flows_survive_random_faults(
        tape in proptest::collection::vec(any::<u8>(), 0..80),
        script in proptest::collection::vec(any::<(u8, u8)>(), 0..120),
    ) {
        run_case(&tape, &script);
    }

    #[test]
    fn without_faults_every_step_ends_once_and_the_run_completes(tape in proptest::collection::vec(any::<u8>(), 0..120)) {
        let flow = Tape { bytes: &tape, at: 0, tasks: 0 }.flow();
        let mut world = World::new(flow).start();
        heal(&mut world);
        prop_assert_eq!(world.status(), Status::Completed);
        let started = world.count(|e| matches!(e, Event::StepStarted { .. }));
        let ended = world.count(|e| matches!(e, Event::StepEnded { .. } | Event::OpDone { .. }));
        prop_assert_eq!(started, ended);
        prop_assert_eq!(world.count(|e| matches!(e, Event::SendLost { .. } | Event::AttemptFailed { .. })), 0);
        prop_assert_eq!(world.state.steps.len(), 1, "only the root is left");
    }
}

/// A step called failed was sent again by the flow's own retry, after another step's verdict had
/// let the run go on in between.
#[test]
fn a_step_called_failed_is_not_sent_again_by_a_later_flow_retry() {
    let mut tape = vec![
        0, 25, 127, 44, 125, 102, 111, 136, 80, 132, 220, 19, 0, 98, 0, 0, 130, 98, 19, 0, 220, 32, 14, 0, 126, 0, 10,
        0, 64, 7, 0, 0, 42, 0, 23, 94,
    ];
    tape.resize(69, 0);
    let mut script = vec![(120, 0), (48, 41), (96, 9), (0, 204), (0, 108)];
    script.resize(22, (0, 0));
    script.extend([(45, 2), (234, 104), (4, 228), (198, 183)]);
    run_case(&tape, &script);
}

/// Whoever asks for failed steps again asks for those that were called failed as well.
#[test]
fn a_step_called_failed_is_sent_again_when_a_person_asks() {
    let tape = [0, 21, 23, 0, 0, 0];
    let script = [(0, 25), (180, 0), (72, 185), (20, 83), (213, 125), (19, 29), (0, 64), (42, 171), (0, 0)];
    run_case(&tape, &script);
}
