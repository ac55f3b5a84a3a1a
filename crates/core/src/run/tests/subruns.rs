//! Sub-runs: waiting, time-outs, failures, and cancelling through them.

use super::flows::*;
use super::world::*;
use crate::ir::{SubflowSpec, Task, TaskKind};
use crate::run::*;
use Answer::*;

fn with_spec(task: Task, change: impl FnOnce(&mut SubflowSpec)) -> Task {
    task.with(|t| match &mut t.kind {
        TaskKind::Subflow(spec) => change(spec),
        _ => panic!("a sub-flow"),
    })
}

fn waiting(task: Task) -> World {
    let mut world = World::of(vec![task, inline("last")]).start();
    world.answer_all();
    assert_eq!(world.status(), Status::Waiting);
    world
}

fn cancelled_children(world: &World) -> usize {
    world.asked.iter().filter(|a| matches!(a, Action::CancelChild { .. })).count()
}

scenarios! {
    fn a_sub_runs_end_ends_the_step_with_its_outputs() {
        let mut world = waiting(subflow("a"));
        world.child_ends(1, EndStatus::Completed, 0);
        world.finish();
        world.assert_ends(&["a:success", "last:success"]);
        assert!(world.must(Input::ChildEnded { run: child_id(1), status: EndStatus::Completed, conclusion: None, warned: false, outputs: payload("x"), doubts: 0 }).events.is_empty());
        let mut world = World::of(vec![subflow("only")]).start();
        world.answer_all();
        world.child_ends(1, EndStatus::Completed, 0);
        assert_eq!(world.state.phase, Phase::Finishing);
    }

    fn a_sub_run_that_was_not_as_it_should_be_is_a_warning_of_the_step() {
        let ended = |task: Task| {
            let mut world = waiting(task);
            let (status, outputs) = (EndStatus::Completed, payload("x"));
            world.must(Input::ChildEnded { run: child_id(1), status, conclusion: None, warned: true, outputs, doubts: 0 });
            world.finish();
            world
        };
        ended(subflow("a")).assert_ends(&["a:warning", "last:success"]);
        ended(subflow("a").with(|task| task.allow_warning = true)).assert_ends(&["a:success", "last:success"]);
        ended(with_spec(subflow("a"), |spec| spec.transmit_failed = false)).assert_ends(&["a:success", "last:success"]);
    }

    fn one_sub_run_ends_every_step_that_waits_for_it() {
        let mut world = World::of(vec![parallel("all", 0, vec![subflow("a"), subflow("b")]), inline("last")]).start();
        world.answer_all();
        // One explicit key: the admission of the second attached to the run of the first.
        world.store_writes(&[Event::ChildStarted { step: key("all/b"), run: child_id(1) }]);
        world.child_ends(1, EndStatus::Completed, 0);
        world.finish();
        world.assert_ends(&["all/a:success", "all/b:success", "all:success", "last:success"]);
    }

    fn a_run_that_was_replaced_is_not_told_of_its_sub_run() {
        let mut world = waiting(subflow("a"));
        assert!(world.replaced());
        let before = world.journal.len();
        world.child_ends(1, EndStatus::Completed, 0);
        assert_eq!((world.status(), world.journal.len()), (Status::Cancelled, before), "ended is ended");
        world.child_ends(1, EndStatus::Failed, 1);
        assert_eq!(world.status(), Status::Held, "but what is unknown below counts");
    }

    fn a_run_that_is_cancelled_alone_leaves_its_sub_runs() {
        let mut world = World::of(vec![parallel("all", 0, vec![subflow("a"), naked("sent")]), inline("last")]).calls("sent", &[Silence]).start();
        world.answer_all();
        world.must(Input::CancelAlone { by: by() });
        assert_eq!((cancelled_children(&world), world.status()), (0, Status::Running), "what was sent settles first");
        let action = world.pending.pop_front().expect("a send");
        world.answer_with(&action, Good);
        assert_eq!(world.status(), Status::Cancelled);
        world.child_ends(1, EndStatus::Completed, 0);
        assert_eq!(world.status(), Status::Cancelled, "nobody waits for it any more");
        // A restart waits for it again, and a cancel of all of it reaches it then.
        world.must(Input::Restart { by: by() });
        assert!(!world.state.alone);
    }

    fn a_sub_run_that_is_on_its_way_goes_on_too() {
        let mut world = World::of(vec![subflow("a"), inline("last")]).start();
        // Asked for, and not known yet.
        world.must(Input::CancelAlone { by: by() });
        world.finish();
        assert_eq!((cancelled_children(&world), world.status()), (0, Status::Cancelled));
        assert!(world.input(Input::CancelAlone { by: by() }).is_err(), "it has ended");
    }

    fn a_failed_or_cancelled_sub_run_fails_the_step_or_warns() {
        for status in [EndStatus::Failed, EndStatus::Cancelled] {
            let mut world = waiting(subflow("a"));
            world.child_ends(1, status, 0);
            world.assert_ends(&["a:failed"]);
            assert_eq!(world.status(), Status::Failed);
            let mut world = waiting(with_spec(subflow("a"), |s| s.transmit_failed = false));
            world.child_ends(1, status, 0);
            world.finish();
            world.assert_ends(&["a:success", "last:success"]);
            assert_eq!((world.status(), world.state.warned), (Status::Completed, false));
        }
    }

    fn a_step_that_does_not_wait_ends_when_the_child_is_admitted() {
        let world = World::of(vec![with_spec(subflow("a"), |s| s.wait = false), inline("last")]).start().finished();
        world.assert_ends(&["a:success", "last:success"]);
        let mut world = World::of(vec![with_spec(subflow("only"), |s| s.wait = false)]).start();
        world.answer_all();
        assert_eq!(world.status(), Status::Completed);
        world.child_ends(1, EndStatus::Failed, 1);
        assert_eq!(world.status(), Status::Held, "its doubts count here");
    }

    fn doubts_of_a_sub_run_hold_the_parent() {
        let mut world = waiting(subflow("a"));
        world.child_ends(1, EndStatus::Failed, 2);
        assert_eq!((world.status(), world.state.open_doubts()), (Status::Held, 2));
        assert!(world.input(Input::Restart { by: by() }).is_err());
        world.must(Input::DoubtsBelow { run: child_id(1), count: 0 });
        world.must(Input::Restart { by: by() });
        world.answer_all();
        world.child_ends(2, EndStatus::Completed, 0);
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_sub_run_that_takes_too_long_is_cancelled_and_fails_the_step() {
        let mut world = waiting(subflow("a").with(|t| t.timeout_ms = Some(1000)));
        world.finish();
        world.assert_ends(&["a:failed"]);
        assert_eq!((world.status(), cancelled_children(&world)), (Status::Failed, 1));
        let mut world = waiting(subflow("a").with(|t| t.timeout_ms = Some(1000)));
        world.child_ends(1, EndStatus::Completed, 0);
        assert_eq!(world.count(|e| matches!(e, Event::TimerCleared { .. })), 1);
    }

    /// The time-out comes before the admission: no orphan is left behind.
    fn a_time_out_before_the_child_is_known_is_acted_on_when_it_is() {
        let timed = || subflow("a").with(|t| t.timeout_ms = Some(1000));
        let mut world = World::of(vec![timed()]).calls("a", &[Silence]).start();
        world.answer_all();
        assert!(world.fire_next());
        assert_eq!(world.status(), Status::Running);
        world.crash();
        world.finish();
        world.assert_ends(&["a:failed"]);
        assert_eq!(cancelled_children(&world), 1);
    }

    fn an_admission_that_fails_is_retried_with_a_time_out_of_its_own() {
        let task = subflow("a").retried(2, 600).with(|t| t.timeout_ms = Some(1000));
        let mut world = World::of(vec![task]).calls("a", &[Fail]).start();
        world.answer_all();
        assert!(world.fire_next());
        world.answer_all();
        let timers: Vec<_> = world.state.timers.values().collect();
        assert_eq!((timers.len(), timers[0].due), (1, world.now.plus(1000)));
        world.child_ends(1, EndStatus::Completed, 0);
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        let world = World::of(vec![subflow("a")]).calls("a", &[Fail]).start().finished();
        assert_eq!(world.status(), Status::Failed);
    }

    fn cancel_goes_through_to_the_child_and_waits_for_it() {
        let mut world = waiting(subflow("a"));
        world.must(Input::Cancel { by: by() });
        assert_eq!((world.state.phase, cancelled_children(&world)), (Phase::Open, 1));
        world.crash();
        assert_eq!(cancelled_children(&world), 2, "the request may have been lost with the process");
        world.child_ends(1, EndStatus::Cancelled, 0);
        assert_eq!(world.status(), Status::Cancelled);
        world.assert_ends(&["a:cancelled"]);
    }

    fn cancel_reaches_a_child_that_is_just_being_admitted() {
        let mut world = World::of(vec![subflow("a")]).calls("a", &[Silence]).start();
        world.answer_all();
        world.must(Input::Cancel { by: by() });
        assert_eq!(cancelled_children(&world), 0);
        world.answer_all();
        assert_eq!(cancelled_children(&world), 1);
        world.child_ends(1, EndStatus::Completed, 0);
        world.assert_ends(&["a:success"]);
        assert_eq!(world.status(), Status::Cancelled);
    }

    fn a_child_that_does_not_wait_ends_well_in_a_cancelled_run() {
        let mut world = World::of(vec![with_spec(subflow("a"), |s| s.wait = false)]).calls("a", &[Silence]).start();
        world.answer_all();
        world.must(Input::Cancel { by: by() });
        world.answer_all();
        world.assert_ends(&["a:success"]);
        assert_eq!(world.status(), Status::Cancelled);
    }

    fn a_crash_while_waiting_for_a_child_asks_for_nothing() {
        let mut world = waiting(subflow("a"));
        world.crash();
        assert!(world.pending.is_empty());
        world.must(Input::Pause { by: by() });
        world.child_ends(1, EndStatus::Completed, 0);
        assert_eq!(world.status(), Status::Paused);
        world.must(Input::Resume { by: by() });
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }
}
