//! Workflows of Conductor's: one failure ends all, and what it was says how.

use super::flows::*;
use super::world::*;
use crate::ir::{ConductorTask, Dialect, EffectClass, ErrandKind, Flow, Retry, RetrySchedule, Task};
use crate::run::*;
use Answer::*;

fn conductor(tasks: Vec<Task>) -> World {
    World::new(Flow { dialect: Dialect::Conductor, ..flow(tasks) })
}

fn with() -> Answer {
    let terms = ErrandTerms { retry: None, ..super::errands::terms(ErrandKind::Simple) };
    Evaluates(Evaluated::Errand { terms: Box::new(terms), request: payload("errand") })
}

fn forked(a: Task) -> World {
    let mut world =
        conductor(vec![parallel("p", 0, vec![a, errand("b")])]).evals("a", &[with()]).evals("b", &[with()]).start();
    world.answer_all();
    world
}

fn failed(code: &str) -> Said {
    Said::Failed { failure: Failure::new(code, "no"), output: None, for_good: true }
}

fn said(step: &str, said: Said) -> Input {
    Input::Errand { step: key(step), attempt: 1, said, seen: Seen::default() }
}

fn ended(world: &World, step: &str) -> Option<StepOutcome> {
    let outcome = |event: &Event| match event {
        Event::StepEnded { step: key, outcome, .. } if key.0 == step => Some(*outcome),
        _ => None,
    };
    world.journal.iter().filter_map(outcome).next_back()
}

scenarios! {
    fn a_failure_that_nobody_tolerates_takes_back_what_runs_beside_it() {
        for (code, status, conclusion) in [
            ("worker", Status::Failed, None),
            (TIMED_OUT, Status::Failed, Some(Conclusion::TimedOut)),
            (CANCELLED, Status::Cancelled, Some(Conclusion::ByRule)),
        ] {
            let mut world = forked(errand("a"));
            world.must(said("p/a", failed(code)));
            assert_eq!(world.state.errands().count(), 0, "the other one is taken back at once");
            world.finish();
            assert_eq!((world.status(), world.state.conclusion), (status, conclusion), "{code}");
            assert_eq!(ended(&world, "p/b"), Some(StepOutcome::Cancelled));
        }
    }

    fn a_permissive_failure_waits_for_the_others_and_a_tolerated_one_is_none() {
        let own = ConductorTask { permissive: true, ..ConductorTask::default() };
        let mut world = forked(Task { conductor: Some(Box::new(own)), ..errand("a") });
        world.must(said("p/a", failed("worker")));
        assert_eq!(world.state.errands().count(), 1);
        world.must(said("p/b", Said::Done { output: payload("b") }));
        world.finish();
        assert_eq!((world.status(), ended(&world, "p/b")), (Status::Failed, Some(StepOutcome::Success)));

        let mut world = forked(Task { allow_failure: true, ..errand("a") });
        world.must(said("p/a", failed("worker")));
        world.must(said("p/b", Said::Done { output: payload("b") }));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn an_end_that_is_not_a_good_one_has_outputs_too() {
        let mut world = forked(errand("a"));
        world.must(said("p/a", failed("worker")));
        world.finish();
        let Some(Event::Ended { outputs, failure, .. }) = world.journal.last() else { panic!("an end") };
        assert_eq!(outputs.as_ref(), Some(&payload("outputs")));
        assert_eq!(failure.as_ref().map(Failure::message), Some("no"));
        world.must(Input::Restart { by: By::default() });
        assert_eq!(world.state.stop, None, "and a restart forgets all of it");
    }

    fn how_often_a_step_is_tried_may_be_known_only_when_it_begins() {
        let schedule = RetrySchedule::Constant { interval_ms: 500 };
        let retry = Retry { schedule, max_attempts: Some(2), max_duration_ms: None, warning_on_retry: false, new_execution: false };
        let mut world = conductor(vec![effect("e", EffectClass::Read)]).evals("e", &[Silence]).calls("e", &[Fail, Good]).start();
        world.answer_all();
        let (window_ms, timeout_ms, request) = (1_000, 1_000, payload("request"));
        let result = Ok(Evaluated::Effect { class: EffectClass::Read, out_key: None, window_ms, timeout_ms, request });
        world.must(Input::Evaluated { step: key("e"), result, retry: Some(Box::new(retry)) });
        world.crash();
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert_eq!(world.count(|event| matches!(event, Event::RetrySet { .. })), 1);
        assert_eq!(world.count(|event| matches!(event, Event::AttemptFailed { .. })), 1);
    }
}
