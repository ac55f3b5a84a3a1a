//! Steps that someone outside carries out.

use super::flows::*;
use super::world::*;
use crate::ids::Hash16;
use crate::ir::{ErrandKind, Retry, RetrySchedule, Task};
use crate::run::*;
use Answer::*;

pub fn terms(kind: ErrandKind) -> ErrandTerms {
    let schedule = RetrySchedule::Constant { interval_ms: 500 };
    ErrandTerms {
        queue: "charge".into(),
        kind,
        domain: None,
        priority: 0,
        retry: Some(Retry {
            schedule,
            max_attempts: Some(3),
            max_duration_ms: None,
            warning_on_retry: false,
            new_execution: false,
        }),
        jitter_ms: None,
        delay_ms: None,
        response_ms: Some(60_000),
        poll_ms: Some(10_000),
        attempt_ms: Some(90_000),
        when_late: WhenLate::EndRun,
        output_schema: serde_json::Value::Null,
    }
}

fn with(terms: ErrandTerms) -> Answer {
    Evaluates(Evaluated::Errand { terms: Box::new(terms), request: payload("errand") })
}

fn said(step: &str, attempt: u32, said: Said) -> Input {
    Input::Errand { step: key(step), attempt, said, seen: Seen::default() }
}

fn done() -> Said {
    Said::Done { output: payload("result") }
}

fn failed(for_good: bool) -> Said {
    Said::Failed { failure: Failure::new("worker", "no"), output: None, for_good }
}

/// Attempts that were set out, with how long after `now` each is free.
fn out(world: &World) -> Vec<(u32, i64)> {
    let set = world.journal.iter().filter_map(|event| match event {
        Event::ErrandSet { attempt, at, free_at, .. } => Some((*attempt, free_at.since(*at))),
        _ => None,
    });
    set.collect()
}

fn waiting(tasks: Vec<Task>) -> World {
    let mut world = World::of(tasks).start();
    world.answer_all();
    world
}

scenarios! {
    fn an_errand_waits_for_its_answer_and_costs_nothing_meanwhile() {
        let mut world = waiting(vec![errand("e"), inline("a")]);
        assert_eq!((world.status(), world.state.is_active()), (Status::Waiting, false));
        assert_eq!(world.state.errands().map(|(key, attempt, _)| (key.0.clone(), attempt)).collect::<Vec<_>>(), [("e".into(), 1)]);
        world.crash();
        assert_eq!(out(&world), [(1, 0)], "a crash sets nothing out again");
        world.must(said("e", 1, done()));
        world.finish();
        world.assert_ends(&["e:success", "a:success"]);
        assert!(world.input(said("e", 1, done())).is_err(), "a repeat changes nothing");
    }

    fn the_last_step_of_a_run_may_be_an_errand() {
        let mut world = waiting(vec![errand("e")]);
        world.must(said("e", 1, done()));
        assert_eq!(world.state.phase, Phase::Finishing);
    }

    fn a_failed_attempt_is_set_out_again_until_the_policy_is_spent() {
        let mut world = waiting(vec![errand("e")]);
        for attempt in 1..=2 {
            world.must(said("e", attempt, failed(false)));
            assert!(world.input(said("e", attempt, done())).is_err(), "attempt {attempt} was given up");
        }
        assert_eq!(out(&world), [(1, 0), (2, 500), (3, 500)]);
        world.must(said("e", 3, failed(false)));
        assert_eq!(world.status(), Status::Failed);
        assert!(world.input(said("e", 3, done())).is_err());
        world.must(Input::Restart { by: by() });
        world.answer_all();
        assert_eq!(out(&world).last(), Some(&(4, 0)), "no two attempts have one name, whoever asks for another");
    }

    fn what_failed_for_good_is_not_tried_again() {
        let mut world = waiting(vec![errand("e")]);
        world.must(said("e", 1, failed(true)));
        assert_eq!((world.status(), out(&world).len()), (Status::Failed, 1));
    }

    fn whoever_falls_silent_is_given_up_for_the_next_attempt() {
        let mut world = waiting(vec![errand("e")]);
        world.must(said("e", 1, Said::Late(Late::Response)));
        assert_eq!(out(&world).len(), 2);
        assert!(world.input(said("e", 1, done())).is_err(), "the answer comes too late");
        world.must(said("e", 2, done()));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn an_attempt_that_takes_too_long_means_what_its_author_said() {
        let late = |when_late, late| {
            let terms = ErrandTerms { when_late, ..terms(ErrandKind::Simple) };
            let mut world = World::of(vec![errand("e")]).evals("e", &[with(terms)]).start();
            world.answer_all();
            world.must(said("e", 1, Said::Late(late)));
            (world.status(), world.state.conclusion, out(&world).len())
        };
        for why in [Late::Poll, Late::Attempt] {
            assert_eq!(late(WhenLate::EndRun, why), (Status::Failed, Some(Conclusion::TimedOut), 1));
            assert_eq!(late(WhenLate::Again, why), (Status::Waiting, None, 2));
            assert_eq!(late(WhenLate::Ignore, why), (Status::Waiting, None, 1));
        }
    }

    fn a_run_that_takes_too_long_stops_what_is_beside_it() {
        let mut world = waiting(vec![parallel("p", 0, vec![errand("e"), errand("f"), sleep("s", 1_000)])]);
        world.must(said("p/e", 1, Said::Late(Late::Attempt)));
        assert_eq!((world.status(), world.state.errands().count()), (Status::Failed, 0));
    }

    fn a_wait_is_over_when_its_time_has_come_or_somebody_says_so() {
        for end in [Said::Late(Late::Attempt), done()] {
            let mut world = World::of(vec![errand("e")]).evals("e", &[with(terms(ErrandKind::Wait))]).start();
            world.answer_all();
            world.must(said("e", 1, end));
            world.finish();
            assert_eq!(world.status(), Status::Completed);
        }
    }

    fn the_first_attempt_may_be_set_out_for_later() {
        let terms = ErrandTerms { delay_ms: Some(7_000), ..terms(ErrandKind::Simple) };
        let mut world = World::of(vec![errand("e")]).evals("e", &[with(terms)]).start();
        world.answer_all();
        assert_eq!(out(&world), [(1, 7_000)]);
    }

    fn jitter_is_drawn_from_the_step_and_bounded() {
        let terms = ErrandTerms { jitter_ms: Some(100), ..terms(ErrandKind::Simple) };
        let mut world = World::of(vec![errand("e")]).evals("e", &[with(terms)]).start();
        world.answer_all();
        for attempt in 1..=2 {
            world.must(said("e", attempt, failed(false)));
        }
        let waits: Vec<i64> = out(&world)[1..].iter().map(|(_, wait)| *wait).collect();
        assert!(waits.iter().all(|wait| (500..=600).contains(wait)), "{waits:?}");
        assert_ne!(waits[0], waits[1]);
    }

    fn a_paused_run_sets_nothing_out() {
        let mut world = waiting(vec![errand("e")]);
        world.must(Input::Pause { by: by() });
        world.must(said("e", 1, failed(false)));
        assert_eq!((out(&world).len(), world.state.errands().count()), (1, 0));
        assert!(world.input(said("e", 2, done())).is_err(), "nobody can have it");
        world.must(Input::Resume { by: by() });
        assert_eq!(out(&world).last(), Some(&(2, 0)));
        world.must(said("e", 2, done()));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_cancelled_run_does_not_wait_for_its_workers() {
        let mut world = waiting(vec![errand("e")]);
        world.must(Input::Cancel { by: by() });
        assert_eq!((world.status(), world.state.errands().count()), (Status::Cancelled, 0));
    }

    fn what_a_restore_holds_is_set_out_again_when_it_is_released() {
        let mut world = waiting(vec![errand("e")]);
        world.store_writes(&[Event::Restored { at: world.now }]);
        assert!(world.input(said("e", 1, done())).is_err(), "nobody knows what became of it since");
        world.must(Input::Release { by: by() });
        assert_eq!(out(&world), [(1, 0), (1, 0)]);
        world.must(said("e", 1, done()));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }
}

#[test]
fn each_attempt_has_a_name_of_its_own() {
    let (one, two) = (Hash16([1; 16]), Hash16([2; 16]));
    let names = [errand_id(one, 1), errand_id(one, 2), errand_id(two, 1)];
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
    assert_eq!(errand_id(one, 1), names[0]);
}
