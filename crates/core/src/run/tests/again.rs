//! A flow that is tried again in a new run: the same logical run, with what was done kept.

use super::flows::*;
use super::world::*;
use crate::ir::{Retry, Task};
use crate::run::*;
use Answer::*;

fn anew(attempts: u32) -> Retry {
    Retry { new_execution: true, ..retry(attempts, 1_000) }
}

/// Fails at its second task once.
fn failed() -> World {
    let mut flow = flow(vec![naked("pay"), read("tell"), inline("last")]);
    flow.retry = Some(anew(3));
    let mut world = World::new(flow).calls("tell", &[Fail]).start();
    world.answer_all();
    assert_eq!(world.state.phase, Phase::RetryLater);
    world
}

fn by_task() -> Vec<Task> {
    vec![naked("pay"), seq("group", vec![read("tell").with(|task| task.retry = Some(anew(2)))])]
}

scenarios! {
    fn a_new_run_goes_on_where_the_old_one_failed() {
        let mut old = failed();
        let pays = old.intents("pay");
        old.fire_next();
        assert_eq!((old.state.phase, old.state.is_active()), (Phase::RetryLater, true));
        old.answer_all();
        assert_eq!((old.status(), old.state.conclusion), (Status::Failed, Some(Conclusion::Retried)));
        let mut new = old.successor();
        assert_eq!((new.status(), new.state.step_id(&key("tell"))), (Status::Queued, old.state.step_id(&key("tell"))));
        new.must(Input::Start);
        new.finish();
        assert_eq!(new.status(), Status::Completed);
        assert_eq!(pays.len() + new.intents("pay").len(), 1, "what was done is not done again");
        assert_eq!(new.intents("tell")[0].2, old.intents("tell")[0].2, "and what failed has the key it had");
    }

    fn the_attempts_are_counted_over_all_runs() {
        let mut world = failed();
        for attempt in 2..=3 {
            world.fire_next();
            world.answer_all();
            world = world.successor().calls("tell", &[Fail]);
            world.must(Input::Start);
            world.answer_all();
            assert_eq!(world.state.flow_attempt, attempt);
        }
        assert_eq!((world.status(), world.state.conclusion), (Status::Failed, None), "the last one has just failed");
    }

    fn one_that_is_waited_for_goes_on_itself() {
        let mut world = failed().calls("again", &[Fail]);
        world.fire_next();
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert_eq!(world.intents("pay").len(), 1);
    }

    fn a_task_may_want_a_new_run_too() {
        let mut world = World::of(by_task()).calls("tell", &[Fail]).start();
        world.answer_all();
        assert_eq!(world.state.phase, Phase::RetryLater, "it is not tried again in the same run");
        world.fire_next();
        world.answer_all();
        let mut new = world.successor();
        new.must(Input::Start);
        new.finish();
        assert_eq!(new.status(), Status::Completed);
        assert_eq!(new.intents("pay").len(), 0);
        let mut spent = world.successor().calls("tell", &[Fail]);
        spent.must(Input::Start);
        spent.finish();
        assert_eq!((spent.status(), spent.state.conclusion), (Status::Failed, None));
    }

    fn a_crash_before_the_new_run_is_there_asks_for_it_again() {
        let mut world = failed().calls("again", &[Silence]);
        world.fire_next();
        world.answer_all();
        assert!(world.state.is_active());
        world.crash();
        world.answer_all();
        assert_eq!(world.state.conclusion, Some(Conclusion::Retried));
    }

    fn where_no_new_run_can_be_made_the_old_one_has_failed() {
        let mut world = failed().calls("again", &[Silence]);
        world.fire_next();
        world.must(Input::Stop { by: by(), status: EndStatus::Failed, failure: Failure::new("lane", "no") });
        assert_eq!((world.status(), world.state.conclusion), (Status::Failed, None));
    }

    fn a_run_whose_place_was_taken_is_not_restarted() {
        let mut world = failed();
        world.fire_next();
        world.answer_all();
        assert!(world.input(Input::Restart { by: by() }).is_err());
        assert!(world.input(Input::MarkStep { step: key("tell"), outcome: StepOutcome::Success, by: by() }).is_err());
    }
}
