//! Retries, sleeps, and what a lost answer does, class by class.

use super::flows::*;
use super::world::*;
use crate::ir::{EffectClass, OnDoubt, Retry, RetrySchedule, Task};
use crate::run::*;
use Answer::*;

/// Waits between the ends of failed attempts and their timers.
fn waits(world: &World) -> Vec<i64> {
    let waits = world.journal.windows(2).filter_map(|pair| match pair {
        [Event::AttemptFailed { .. }, Event::TimerSet { due, why: TimerWhy::Backoff, .. }] => Some(due.0),
        _ => None,
    });
    let dues: Vec<i64> = waits.collect();
    let mut last = 1_000_000;
    dues.into_iter().map(|due| due - std::mem::replace(&mut last, due)).collect()
}

fn with_schedule(schedule: RetrySchedule) -> World {
    let retry =
        Retry { schedule, max_attempts: Some(4), max_duration_ms: None, warning_on_retry: false, new_execution: false };
    World::of(vec![inline("a").with(|t| t.retry = Some(retry))]).evals("a", &[Fail, Fail, Fail, Fail, Fail])
}

/// Sends until the run rests; `n` lost answers in a row.
fn lost(task: crate::ir::Task, n: usize) -> World {
    let id = task.id.clone();
    World::of(vec![task]).calls(&id, &vec![Lost; n]).start().finished()
}

scenarios! {
    fn a_refusal_says_nothing_about_a_send_before_it_that_was_lost() {
        let lost_then_refused = |task: Task| World::of(vec![task]).calls("a", &[Lost, Fail]).start().finished();
        // The next attempt comes when the far side has forgotten the key.
        let world = lost_then_refused(keyed("a").retried(3, 100_000));
        assert_eq!((world.intents("a").len(), world.status(), world.state.open_doubts()), (2, Status::Held, 1));
        // There is no next attempt.
        let world = lost_then_refused(keyed("a"));
        assert_eq!((world.intents("a").len(), world.status(), world.state.open_doubts()), (2, Status::Held, 1));
        // The next attempt comes in time, and settles it.
        let world = lost_then_refused(keyed("a").retried(3, 1_000));
        assert_eq!((world.intents("a").len(), world.status()), (3, Status::Completed));
        // A class that may be repeated has no doubts.
        let world = lost_then_refused(effect("a", EffectClass::Repeatable));
        assert_eq!(world.status(), Status::Failed);
    }

    fn retries_wait_as_their_schedule_says_then_fail() {
        let world = with_schedule(RetrySchedule::Constant { interval_ms: 500 }).start().finished();
        assert_eq!(waits(&world), [500, 500, 500]);
        world.assert_ends(&["a:failed"]);
        let growing = RetrySchedule::Exponential { interval_ms: 100, max_interval_ms: 250, factor: 2.0 };
        assert_eq!(waits(&with_schedule(growing).start().finished()), [100, 200, 250]);
        let random = RetrySchedule::Random { min_interval_ms: 10, max_interval_ms: 90 };
        let (one, two) = (with_schedule(random.clone()).start().finished(), with_schedule(random).start().finished());
        assert_eq!(waits(&one), waits(&two), "drawn from the step id");
        assert!(waits(&one).iter().all(|wait| (10..=90).contains(wait)));
    }

    fn max_duration_ends_the_retries() {
        let retry = retry(100, 400).with(|r| r.max_duration_ms = Some(1000));
        let world = World::of(vec![inline("a").with(|t| t.retry = Some(retry))]).evals("a", &vec![Fail; 9]).start().finished();
        assert_eq!(waits(&world), [400, 400]);
        assert_eq!(world.status(), Status::Failed);
    }

    fn a_retried_inline_step_keeps_its_step_id() {
        let mut world = World::of(vec![inline("a").retried(3, 10)]).evals("a", &[Fail]).start();
        let id = world.state.step_id(&key("a"));
        world.answer_all();
        assert_eq!((world.status(), world.state.step_id(&key("a"))), (Status::Waiting, id));
        world.finish();
        world.assert_ends(&["a:success"]);
        assert_eq!(world.count(|e| matches!(e, Event::StepStarted { .. })), 1);
    }

    fn a_retried_effect_keeps_its_step_id_and_outbound_key() {
        for class in EffectClass::ALL {
            let mut world = World::of(vec![effect("a", class).retried(3, 10)]).calls("a", &[Fail, Fail]).start();
            let id = world.state.step_id(&key("a")).hex();
            world.finish();
            assert_eq!(world.intents("a"), [(1, 1, id.clone()), (2, 2, id.clone()), (3, 3, id)], "{class:?}");
            world.assert_ends(&["a:success"]);
            assert_eq!(world.state.open_doubts(), 0);
        }
    }

    fn the_authors_own_key_is_used_on_every_send() {
        let task = keyed("a").retried(2, 10).with(|t| t.effect.key = Some("order-7".into()));
        let world = World::of(vec![task]).calls("a", &[Fail]).start().finished();
        assert_eq!(world.intents("a"), [(1, 1, "order-7".into()), (2, 2, "order-7".into())]);
    }

    fn warning_on_retry_shows_that_attempts_were_needed() {
        let task = |warn| inline("a").with(|t| t.retry = Some(retry(2, 10).with(|r| r.warning_on_retry = warn)));
        let world = World::of(vec![task(true)]).evals("a", &[Fail]).start().finished();
        world.assert_ends(&["a:warning"]);
        assert!(world.state.warned);
        World::of(vec![task(false)]).evals("a", &[Fail]).start().finished().assert_ends(&["a:success"]);
        World::of(vec![task(true)]).start().finished().assert_ends(&["a:success"]);
    }

    fn a_clean_failure_after_the_window_begins_a_new_one() {
        let world = World::of(vec![keyed("a").retried(2, 90_000)]).calls("a", &[Fail]).start().finished();
        assert_eq!(world.intents("a").len(), 2);
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_sleep_is_a_timer() {
        let mut world = World::of(vec![sleep("s", 60_000), inline("a")]).start();
        world.answer_all();
        assert_eq!(world.status(), Status::Waiting);
        assert!(!world.state.is_active());
        assert_eq!(world.state.next_due(), Some(world.now.plus(60_000)));
        world.crash();
        assert!(world.pending.is_empty(), "a timer needs nobody");
        assert!(world.fire_next());
        world.must(Input::TimerFired { timer: 1 });
        world.finish();
        world.assert_ends(&["s:success", "a:success"]);
    }

    fn a_sleep_is_cut_short_by_its_timeout() {
        let short = |ms: i64, task: Task| World::of(vec![Task { timeout_ms: Some(ms), ..task }, inline("a")]).start();
        let mut world = short(1_000, sleep("s", 60_000));
        world.answer_all();
        assert_eq!(world.state.next_due(), Some(world.now.plus(1_000)));
        world.crash();
        assert!(world.fire_next());
        world.finish();
        world.assert_ends(&["s:failed"]);
        assert_eq!(world.status(), Status::Failed);
        let mut again = short(1_000, sleep("s", 60_000).retried(2, 10));
        again.finish();
        assert_eq!(again.count(|e| matches!(e, Event::AttemptFailed { .. })), 2, "each attempt has its own");
        let mut enough = short(60_000, sleep("s", 60_000));
        enough.finish();
        enough.assert_ends(&["s:success", "a:success"]);
    }

    fn a_sleep_has_a_limit() {
        let slept = |ms: i64| {
            let mut world = World::of(vec![sleep("s", ms)]);
            world.limits.wait_ms_max = 500;
            let mut world = world.start();
            world.answer_all();
            world
        };
        let world = slept(500);
        assert_eq!(world.state.next_due(), Some(world.now.plus(500)));
        for too_long in [501, i64::MAX] {
            let world = slept(too_long);
            assert_eq!((world.status(), world.state.next_due()), (Status::Failed, None), "not a shorter one instead");
        }
    }

    fn lost_answers_of_harmless_classes_are_repeated_then_fail_without_doubt() {
        for class in [EffectClass::Pure, EffectClass::Read, EffectClass::Repeatable] {
            let world = lost(effect("a", class), SENDS_MAX as usize - 1);
            assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, SENDS_MAX as usize), "{class:?}");
            let world = lost(effect("a", class), SENDS_MAX as usize);
            assert_eq!((world.status(), world.state.open_doubts()), (Status::Failed, 0), "{class:?}");
            // The author's policy then begins another attempt with sends of its own.
            let world = lost(effect("a", class).retried(2, 10), 2 * SENDS_MAX as usize - 1);
            assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 2 * SENDS_MAX as usize), "{class:?}");
        }
    }

    fn lost_answers_of_a_keyed_step_are_repeated_with_its_key_inside_the_window() {
        let world = lost(keyed("a"), 2);
        let id = world.intents("a")[0].2.clone();
        assert_eq!(world.intents("a"), [(1, 1, id.clone()), (1, 2, id.clone()), (1, 3, id)]);
        assert_eq!(world.status(), Status::Completed);
        let world = lost(keyed("a"), SENDS_MAX as usize);
        assert_eq!((world.status(), world.state.open_doubts()), (Status::Held, 1));
        let world = lost(keyed("a").retried(2, 10), SENDS_MAX as usize);
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 1 + SENDS_MAX as usize));
    }

    fn a_lost_answer_of_a_keyed_step_outside_the_window_is_a_doubt() {
        let mut world = World::of(vec![keyed("a").retried(5, 10)]).calls("a", &[Silence]).start();
        world.answer_all();
        world.now = world.now.plus(60_000);
        let action = world.pending.pop_front().expect("a send");
        world.answer_with(&action, Lost);
        assert_eq!((world.status(), world.intents("a").len()), (Status::Held, 1));
    }

    /// The wait for the repeat, or for the next attempt, may outlast the window.
    fn a_keyed_repeat_that_comes_too_late_is_a_doubt() {
        let mut world = World::of(vec![keyed("a")]).calls("a", &[Lost]).start();
        world.answer_all();
        assert_eq!(world.status(), Status::Waiting);
        world.now = world.now.plus(60_000);
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Held, 1));
        let world = lost(keyed("a").retried(2, 90_000), SENDS_MAX as usize);
        assert_eq!((world.status(), world.intents("a").len()), (Status::Held, SENDS_MAX as usize));
    }

    fn a_lost_answer_of_a_naked_step_fails_it_in_doubt_whatever_its_retry() {
        for class in [EffectClass::Naked, EffectClass::Probed, EffectClass::Transactional] {
            for on_doubt in [OnDoubt::Hold, OnDoubt::Fail] {
                let task = effect("a", class).retried(5, 10).on_doubt(on_doubt);
                let flow = flow(vec![task]).with(|f| f.errors = vec![inline("e")]);
                let world = World::new(flow).calls("a", &[Lost]).start().finished();
                world.assert_ends(&["a:failed", "e:success"]);
                assert_eq!((world.status(), world.intents("a").len()), (Status::Held, 1), "{class:?}");
                assert_eq!(world.state.phase, Phase::Ended(EndStatus::Failed));
            }
        }
    }

    fn on_doubt_repeat_sends_a_naked_step_again() {
        let world = lost(naked("a").on_doubt(OnDoubt::Repeat), 2);
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 3));
        let world = lost(naked("a").on_doubt(OnDoubt::Repeat).retried(2, 10), SENDS_MAX as usize);
        assert_eq!(world.status(), Status::Completed, "and its retry applies");
        let world = lost(keyed("a").on_doubt(OnDoubt::Repeat).retried(2, 90_000), SENDS_MAX as usize);
        assert_eq!(world.status(), Status::Completed, "even after the window");
        assert_eq!(lost(naked("a").on_doubt(OnDoubt::Repeat), SENDS_MAX as usize).status(), Status::Held);
    }

    fn a_tolerated_step_in_doubt_lets_the_run_complete_and_holds_it() {
        let world = World::of(vec![naked("a").may_fail(), inline("b")]).calls("a", &[Lost]).start().finished();
        world.assert_ends(&["a:failed?", "b:success"]);
        assert_eq!((world.status(), world.state.phase), (Status::Held, Phase::Ended(EndStatus::Completed)));
    }

    fn an_answer_to_an_older_send_or_to_nobody_is_dropped() {
        let mut world = World::of(vec![read("a")]).calls("a", &[Lost, Silence]).start().finished();
        let late = |send| Input::Performed { step: key("a"), send, outcome: Performed::Done { output: payload("late") } };
        assert!(world.must(late(1)).events.is_empty());
        assert!(!world.must(late(2)).events.is_empty());
        assert!(world.must(late(2)).events.is_empty());
        assert!(world.must(Input::Evaluated { step: key("a"), result: Ok(Evaluated::Op), retry: None }).events.is_empty());
        assert!(world.must(Input::TimerFired { timer: 99 }).events.is_empty());
        world.finish();
        assert!(world.must(Input::OutputsEvaluated(Ok(None))).events.is_empty());
    }

    fn an_op_that_fails_is_retried_then_fails_its_step() {
        let world = World::of(vec![op("a").retried(3, 10)]).calls("a", &[Fail, Fail]).start().finished();
        world.assert_ends(&["a:success"]);
        let world = World::of(vec![op("a").retried(3, 10)]).calls("a", &vec![Fail; 3]).start().finished();
        assert_eq!((world.status(), waits(&world)), (Status::Failed, vec![10, 10]));
        let world = World::of(vec![op("a")]).calls("a", &[Fail]).start().finished();
        world.assert_ends(&["a:failed"]);
    }

    fn the_flow_is_retried_and_keeps_finished_steps() {
        let flow = flow(vec![naked("paid"), inline("a")]).with(|f| f.retry = Some(retry(3, 1000)));
        let mut world = World::new(flow.clone()).evals("a", &[Fail]).start();
        world.answer_all();
        assert_eq!((world.status(), world.state.phase), (Status::Waiting, Phase::RetryLater));
        assert!(world.input(Input::Pause { by: by() }).is_err());
        world.crash();
        world.finish();
        world.assert_ends(&["paid:success", "a:failed", "a:success"]);
        assert_eq!(world.status(), Status::Completed);

        let world = World::new(flow.clone()).evals("a", &vec![Fail; 9]).start().finished();
        assert_eq!(world.count(|e| matches!(e, Event::Restarted { .. })), 2, "three tries in all");
        assert_eq!(world.status(), Status::Failed);

        // A doubt is not for a policy to decide.
        let world = World::new(flow.clone()).calls("paid", &[Lost]).start().finished();
        assert_eq!((world.status(), world.intents("paid").len()), (Status::Held, 1));

        let mut world = World::new(flow).calls("paid", &[Fail]).start();
        world.answer_all();
        world.must(Input::Cancel { by: by() });
        assert_eq!(world.status(), Status::Cancelled);
    }
}
