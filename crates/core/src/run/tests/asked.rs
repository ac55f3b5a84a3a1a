//! What people ask of a run at a door: start now, other labels, another status, a step called something else.

use super::flows::*;
use super::world::*;
use crate::run::*;
use Answer::*;

fn force(queued: bool) -> Input {
    Input::ForceRun { by: by(), queued }
}

fn change(status: EndStatus) -> Input {
    Input::ChangeStatus { by: by(), status, warned: false, conclusion: None }
}

fn mark(step: &str, outcome: StepOutcome) -> Input {
    Input::MarkStep { step: key(step), outcome, by: by() }
}

/// A run that must not start before its date.
fn scheduled() -> World {
    let mut world = World::of(vec![inline("a")]);
    let due = world.now.plus(60_000);
    world.store_writes(&[Event::TimerSet { timer: 1, due, step: StepKey::root(), why: TimerWhy::StartDate }]);
    world
}

/// A restart of a run, by a flow of these tasks.
fn by_another(world: &mut World, tasks: Vec<crate::ir::Task>) -> Result<(), NotPossible> {
    let was = std::mem::replace(&mut world.index, FlowIndex::new(flow(tasks)));
    let other = Other { flow: crate::ids::FlowRef::new("n", "flow"), revision: 2, was: was.clone() };
    let result = world.input(Input::RestartMarked { by: by(), other: Some(Box::new(other)) }).map(|_| ());
    if result.is_err() {
        world.index = was;
    }
    result
}

fn refused(world: &mut World, tasks: Vec<crate::ir::Task>, why: &str) {
    let refusal = by_another(world, tasks).expect_err("refused");
    assert!(refusal.to_string().contains(why), "{refusal}");
    assert_eq!(world.status(), Status::Failed);
}

scenarios! {
    fn a_run_waits_for_its_date_and_then_for_its_slot() {
        let mut world = scheduled();
        assert_eq!((world.status(), world.state.conclusion), (Status::Queued, Some(Conclusion::Scheduled)));
        world.crash();
        world.fire_next();
        assert_eq!((world.asked.as_slice(), world.state.conclusion), (&[Action::EnterLane][..], None));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_run_that_waits_is_forced_to_start_and_its_date_is_forgotten() {
        let mut world = scheduled();
        assert!(world.input(force(true)).is_err(), "it does not wait for a slot");
        assert_eq!(world.must(force(false)).actions, [Action::ForceLane]);
        assert!(world.state.timers.is_empty() && world.state.conclusion.is_none());
        world.finish();
        assert_eq!(world.status(), Status::Completed);

        let mut world = World::of(vec![naked("a")]);
        assert_eq!(world.must(force(true)).actions, [Action::ForceLane]);
        world.answer_all();
        assert!(world.input(force(true)).is_err());
        world.finish();
        assert!(world.input(force(false)).is_err(), "it has ended");
    }

    fn a_run_that_goes_on_has_nothing_to_be_forced_to() {
        let mut world = World::of(vec![naked("a")]).calls("a", &[Silence]).start();
        assert!(world.must(force(false)).events.is_empty());
        assert!(world.input(force(true)).is_err());
        assert!(world.input(change(EndStatus::Failed)).is_err());
    }

    fn labels_are_replaced_when_the_run_has_ended() {
        let set = || Input::SetLabels { by: by(), labels: payload("labels") };
        let mut world = World::of(vec![inline("a")]).start();
        assert!(world.input(set()).is_err());
        world.finish();
        let decided = world.must(set());
        assert!(decided.events.iter().all(|event| !event.touches_the_end()), "{:?}", decided.events);
        assert_eq!(world.status(), Status::Completed);
    }

    fn the_status_of_an_ended_run_is_what_a_person_says() {
        let mut world = World::of(vec![inline("a")]);
        assert!(world.input(change(EndStatus::Failed)).is_err());
        let mut world = world.start().finished();
        world.must(change(EndStatus::Failed));
        assert_eq!(world.status(), Status::Failed);
        world.must(Input::ChangeStatus {
            by: by(),
            status: EndStatus::Completed,
            warned: true,
            conclusion: Some(Conclusion::Skipped),
        });
        assert_eq!((world.status(), world.state.warned), (Status::Completed, true));
        assert_eq!(world.state.conclusion, Some(Conclusion::Skipped));
        world.must(Input::Replay { by: by(), from: None });
        world.finish();
        assert_eq!((world.status(), world.state.conclusion), (Status::Completed, None));
    }

    fn a_status_is_not_changed_over_a_doubt() {
        let mut world = World::of(vec![naked("a")]).calls("a", &[Lost]).start().finished();
        assert!(world.input(change(EndStatus::Completed)).is_err());
        assert!(world.input(mark("a", StepOutcome::Success)).is_err());
    }

    fn a_failed_step_is_called_done_and_the_run_goes_on_behind_it() {
        let mut world = World::of(vec![inline("a"), naked("b"), naked("c")]).calls("b", &[Fail]).start().finished();
        assert_eq!(world.status(), Status::Failed);
        for wrong in ["a", "c", "nobody", ""] {
            assert!(world.input(mark(wrong, StepOutcome::Success)).is_err(), "{wrong}");
        }
        let decided = world.must(mark("b", StepOutcome::Warning));
        assert_eq!(decided.actions, [Action::Evaluate(key("c"))]);
        world.finish();
        world.assert_ends(&["a:success", "b:failed", "b:warning", "c:success"]);
        assert_eq!((world.status(), world.state.warned), (Status::Completed, true));
        assert_eq!(world.intents("b").len(), 1);
        assert!(world.input(mark("b", StepOutcome::Success)).is_err(), "nothing failed any more");
    }

    fn a_failed_group_is_called_something_else_with_all_that_is_in_it() {
        let group = || seq("g", vec![inline("x"), inline("y")]);
        let mut world = World::of(vec![group()]).evals("y", &[Fail]).start().finished();
        assert!(world.must(mark("g", StepOutcome::Success)).actions.contains(&Action::EvaluateOutputs));
        world.finish();
        assert_eq!(world.status(), Status::Completed);

        let mut world = World::of(vec![group(), inline("z")]).evals("y", &[Fail]).start().finished();
        assert!(world.must(mark("g/y", StepOutcome::Failed)).actions.is_empty());
        assert_eq!(world.status(), Status::Failed);
    }

    fn a_restart_is_seen_in_the_labels_where_that_is_asked_for() {
        let mut world = World::of(vec![inline("a")]).evals("a", &[Fail]).start().finished();
        world.must(Input::RestartMarked { by: by(), other: None });
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert_eq!(world.count(|e| matches!(e, Event::LabelsSet { .. })), 1);
    }

    fn a_failed_run_goes_on_by_another_revision() {
        let tasks = |more: &[&str]| {
            let inner = ["x", "y"].iter().chain(more).map(|id| naked(id)).collect();
            vec![naked("a"), seq("g", inner), naked("c")]
        };
        let mut world = World::of(tasks(&[])).calls("y", &[Fail]).start().finished();
        refused(&mut world, vec![naked("a"), seq("g", vec![naked("x")]), naked("c")], "has no place");
        refused(&mut world, vec![naked("a"), naked("g")], "another kind of task");
        let mut other = tasks(&["z"]);
        other.insert(0, naked("new"));
        by_another(&mut world, other).expect("it has its place");
        assert!(matches!(world.journal.last(), Some(event) if !matches!(event, Event::Ended { .. })));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        let sent = ["new", "a", "g/x", "g/y", "g/z", "c"].map(|step| world.intents(step).len());
        assert_eq!(sent, [0, 1, 1, 2, 1, 1], "what was done stays done, and what stands before it is not made up for");
        assert_eq!(world.count(|event| matches!(event, Event::FlowChanged { revision: 2, .. })), 1);
    }

    fn branches_that_have_begun_stand_where_they_stood() {
        let branches = |ids: &[&str]| vec![parallel("p", 0, ids.iter().map(|id| naked(id)).collect())];
        let mut world = World::of(branches(&["x", "y", "z"])).calls("y", &[Fail]).start().finished();
        refused(&mut world, branches(&["x", "n", "y", "z"]), "another order");
        by_another(&mut world, branches(&["x", "y", "z", "n"])).expect("what has begun comes first");
        world.finish();
        let sent = ["p/x", "p/y", "p/z", "p/n"].map(|step| world.intents(step).len());
        assert_eq!((world.status(), sent), (Status::Completed, [1, 2, 1, 1]));
    }

    fn a_step_of_an_open_run_cannot_be_called_anything() {
        let mut world = World::of(vec![naked("a")]).calls("a", &[Silence]).start();
        world.answer_all();
        assert!(world.input(mark("a", StepOutcome::Success)).is_err());
    }

    fn a_run_goes_on_from_what_another_one_did() {
        let mut world = World::of(vec![inline("a"), seq("g", vec![inline("x")]), inline("c")]);
        let before = World::of(vec![inline("a"), seq("g", vec![inline("x")]), inline("c")]).start().finished();
        let done = |event: &&Event| match event {
            Event::StepStarted { step, .. } | Event::Branched { step, .. } | Event::StepEnded { step, .. } => {
                step.0 != "c"
            }
            _ => false,
        };
        let run = child_id(9);
        let mut events = vec![Event::ReplayOf { run, original: run, from: 2 }];
        events.extend(before.journal.iter().filter(done).cloned());
        world.store_writes(&events);
        assert!(world.state.steps.is_empty() && world.status() == Status::Queued, "{:?}", world.state);
        world.must(Input::Start);
        assert_eq!(world.asked, [Action::Evaluate(key("c"))]);
        world.crash();
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        world.assert_ends(&["a:success", "g/x:success", "g:success", "c:success"]);
    }

    fn variables_change_with_the_step_that_says_so() {
        let set = Evaluates(Evaluated::Variables(VariableChange::Set(payload("more"))));
        let unset = Evaluates(Evaluated::Variables(VariableChange::Unset(payload("names"))));
        let world = World::of(vec![inline("a"), inline("b")]).evals("a", &[set]).evals("b", &[unset]).start().finished();
        world.assert_ends(&["a:success", "b:success"]);
        assert_eq!(world.count(|e| matches!(e, Event::VariablesSet { .. } | Event::VariablesUnset { .. })), 2);
    }
}
