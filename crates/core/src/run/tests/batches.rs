//! A sub-run for each batch: a loop whose rounds are steps.

use super::flows::*;
use super::world::*;
use crate::ir::TaskKind;
use crate::run::*;

fn waiting(count: u32) -> World {
    let mut world = World::of(vec![batches("items", count), inline("last")]).start();
    world.answer_all();
    world
}

scenarios! {
    fn each_batch_is_a_sub_run_and_all_begin_at_once() {
        let mut world = waiting(3);
        assert_eq!((world.status(), world.count(|e| matches!(e, Event::ChildStarted { .. }))), (Status::Waiting, 3));
        for n in 1..=3 {
            world.child_ends(n, EndStatus::Completed, 0);
        }
        world.finish();
        world.assert_ends(&["items[0]:success", "items[1]:success", "items[2]:success", "items:success", "last:success"]);
        assert_eq!(world.count(|e| matches!(e, Event::GroupAnswered { output: Some(_), .. })), 1, "it tells of them");
    }

    fn no_batch_is_no_sub_run() {
        let world = waiting(0).finished();
        world.assert_ends(&["items:success", "last:success"]);
    }

    /// Those that begin later than the failure begin all the same, and what they came to is told.
    fn a_sub_run_that_fails_stops_none_of_the_others() {
        let mut world = World::of(vec![batches("items", 3), inline("last")]);
        world.limits.parallel_branches_max = 1;
        let mut world = world.start();
        world.answer_all();
        for (n, status) in [(1, EndStatus::Failed), (2, EndStatus::Completed), (3, EndStatus::Completed)] {
            world.child_ends(n, status, 0);
            world.answer_all();
        }
        world.assert_ends(&["items[0]:failed", "items[1]:success", "items[2]:success", "items:failed"]);
        assert_eq!(world.count(|e| matches!(e, Event::GroupAnswered { output: Some(_), .. })), 1);
        assert_eq!(world.status(), Status::Failed);
        // A restart goes on with the one that failed.
        world.must(Input::Restart { by: by() });
        world.answer_all();
        assert_eq!(world.count(|e| matches!(e, Event::ChildStarted { .. })), 4);
        world.child_ends(4, EndStatus::Completed, 0);
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert_eq!(world.ends()[4..], ["items[0]:success", "items:success", "last:success"]);
    }

    fn a_failure_that_is_not_transmitted_is_none() {
        let quiet = batches("items", 2).with(|task| match &mut task.kind {
            TaskKind::Batches(spec) => spec.subflow.transmit_failed = false,
            _ => panic!("batches"),
        });
        let mut world = World::of(vec![quiet]).start();
        world.answer_all();
        world.child_ends(1, EndStatus::Failed, 0);
        world.child_ends(2, EndStatus::Completed, 0);
        world.finish();
        world.assert_ends(&["items[0]:success", "items[1]:success", "items:success"]);
    }

    fn a_crash_asks_for_the_sub_runs_that_were_not_admitted() {
        let mut world = World::of(vec![batches("items", 2)]).calls("items[1]", &[Answer::Silence]).start();
        world.answer_all();
        assert_eq!(world.count(|e| matches!(e, Event::ChildStarted { .. })), 1);
        world.crash();
        world.answer_all();
        assert_eq!(world.count(|e| matches!(e, Event::ChildStarted { .. })), 2);
        world.child_ends(1, EndStatus::Completed, 0);
        world.child_ends(2, EndStatus::Completed, 0);
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_cancel_stops_all_sub_runs() {
        let mut world = waiting(2);
        world.must(Input::Cancel { by: by() });
        assert_eq!(world.asked.iter().filter(|a| matches!(a, Action::CancelChild { .. })).count(), 2);
        world.child_ends(1, EndStatus::Cancelled, 0);
        world.child_ends(2, EndStatus::Cancelled, 0);
        assert_eq!(world.status(), Status::Cancelled);
    }
}
