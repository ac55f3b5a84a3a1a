//! What stops a run by a rule, what it must keep, and what comes after its end.

use super::flows::*;
use super::world::*;
use crate::ir::{Flow, Sla, SlaBehavior, SlaRule};
use crate::run::*;
use Answer::*;

fn stop(status: EndStatus) -> Input {
    Input::Stop { by: by(), status, failure: Failure::new("lane_busy", "no slot") }
}

fn with_sla(tasks: Vec<crate::ir::Task>, rule: SlaRule, behavior: SlaBehavior) -> Flow {
    let labels = [("late".to_owned(), "yes".to_owned())].into_iter().collect();
    Flow { sla: vec![Sla { id: "fast".into(), rule, behavior, labels }], ..flow(tasks) }
}

fn minute() -> SlaRule {
    SlaRule::MaxDuration { ms: 60_000 }
}

fn asserts() -> SlaRule {
    SlaRule::Assertion { assert: "{{ true }}".into() }
}

fn after(tasks: Vec<crate::ir::Task>) -> Flow {
    Flow { after: vec![inline("tell"), naked("post")], ..flow(tasks) }
}

fn labelled(world: &World) -> usize {
    world.count(|e| matches!(e, Event::LabelsSet { .. }))
}

scenarios! {
    fn a_rule_ends_a_run_that_has_not_begun() {
        for (status, conclusion) in
            [(EndStatus::Failed, None), (EndStatus::Cancelled, Some(Conclusion::ByRule))]
        {
            let mut world = World::of(vec![inline("a")]);
            world.must(stop(status));
            assert_eq!(world.state.phase, Phase::Ended(status));
            assert_eq!(world.state.conclusion, conclusion);
            assert!(world.must(Input::Start).events.is_empty());
        }
    }

    fn a_rule_waits_for_what_is_in_flight_and_runs_no_handler() {
        let mut world = World::new(Flow { errors: vec![inline("e")], ..flow(vec![naked("a"), inline("b")]) })
            .calls("a", &[Silence])
            .start();
        world.answer_all();
        world.must(stop(EndStatus::Failed));
        assert!(!world.state.is_ended());
        assert!(world.must(stop(EndStatus::Cancelled)).events.is_empty(), "the first one counts");
        world.finish();
        world.assert_ends(&["a:success"]);
        assert_eq!((world.status(), world.state.conclusion), (Status::Failed, None));
        world.must(Input::Restart { by: by() });
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert!(world.must(stop(EndStatus::Failed)).events.is_empty());
    }

    fn a_rule_ends_a_run_between_its_steps() {
        let mut world = World::of(vec![sleep("a", 1_000)]).start();
        world.answer_all();
        world.must(stop(EndStatus::Failed));
        assert_eq!(world.status(), Status::Failed);
        let mut world = World::of(vec![inline("a")]).evals("outputs", &[Silence]).start();
        world.answer_all();
        world.must(stop(EndStatus::Failed));
        assert_eq!(world.status(), Status::Failed);
    }

    fn a_rule_ends_a_run_that_waits_for_its_next_try() {
        let mut world = World::new(Flow { retry: Some(retry(3, 1_000)), ..flow(vec![inline("a")]) }).evals("a", &[Fail]).start();
        world.answer_all();
        assert_eq!(world.state.phase, Phase::RetryLater);
        world.must(stop(EndStatus::Cancelled));
        assert_eq!((world.status(), world.state.conclusion), (Status::Cancelled, Some(Conclusion::ByRule)));
    }

    fn a_run_that_takes_too_long_fails_or_is_cancelled_or_only_labelled() {
        for (behavior, status) in [
            (SlaBehavior::Fail, Status::Failed),
            (SlaBehavior::Cancel, Status::Cancelled),
            (SlaBehavior::None, Status::Completed),
        ] {
            let world = World::new(with_sla(vec![sleep("a", 120_000)], minute(), behavior)).start().finished();
            assert_eq!((world.status(), labelled(&world)), (status, 1), "{behavior:?}");
        }
        let world = World::new(with_sla(vec![sleep("a", 1_000)], minute(), SlaBehavior::Fail)).start().finished();
        assert_eq!((world.status(), labelled(&world)), (Status::Completed, 0));
    }

    fn the_time_of_a_run_goes_on_over_its_tries() {
        let retrying = Flow { retry: Some(retry(3, 1_000)), ..with_sla(vec![inline("a"), sleep("b", 600_000)], minute(), SlaBehavior::Fail) };
        let mut world = World::new(retrying).evals("a", &[Fail]).start();
        world.answer_all();
        world.fire_next();
        assert!(world.state.timers.values().any(|timer| timer.why == TimerWhy::Sla(0)));
        world.finish();
        assert_eq!(world.status(), Status::Failed);
    }

    fn what_the_author_asserts_is_looked_at_after_each_step() {
        let flow = |behavior| with_sla(vec![inline("a"), inline("b")], asserts(), behavior);
        let world = World::new(flow(SlaBehavior::Fail)).evals("sla", &[Good, Fail]).start().finished();
        assert_eq!((world.status(), labelled(&world)), (Status::Failed, 1));
        let world = World::new(flow(SlaBehavior::Fail)).evals("sla", &[Good, Good]).start().finished();
        assert_eq!(world.status(), Status::Completed, "it held to the end");
        let world = World::new(flow(SlaBehavior::Fail)).evals("sla", &[Fail]).start().finished();
        world.assert_ends(&["a:success", "b:cancelled"]);
        let world = World::new(flow(SlaBehavior::Cancel)).evals("sla", &[Good, Fail]).start().finished();
        assert_eq!(world.state.conclusion, Some(Conclusion::ByRule));
        let world = World::new(flow(SlaBehavior::None)).evals("sla", &[Fail, Fail]).start().finished();
        assert_eq!((world.status(), labelled(&world)), (Status::Completed, 1), "broken once");
    }

    fn an_assertion_that_a_crash_swallowed_is_looked_at_again() {
        let mut world = World::new(with_sla(vec![inline("a")], asserts(), SlaBehavior::Fail))
            .evals("sla", &[Silence, Fail])
            .start();
        world.answer_all();
        world.crash();
        world.finish();
        assert_eq!(world.status(), Status::Failed);
    }

    fn what_comes_after_the_end_changes_nothing_about_it() {
        let mut world = World::new(after(vec![inline("a")])).start();
        world.answer_all();
        world.finish();
        world.assert_ends(&["a:success", "tell:success", "post:success"]);
        assert_eq!((world.status(), world.state.concluded.is_none()), (Status::Completed, true));
        let ended = world.journal.last();
        assert!(matches!(ended, Some(Event::Ended { outputs: Some(_), .. })), "{ended:?}");

        let world = World::new(after(vec![inline("a")])).evals("tell", &[Fail]).start().finished();
        assert_eq!((world.status(), world.state.warned), (Status::Completed, false));
        let world = World::new(after(vec![inline("a")])).evals("a", &[Fail]).start().finished();
        world.assert_ends(&["a:failed", "tell:success", "post:success"]);
        assert_eq!(world.status(), Status::Failed);
    }

    fn a_run_that_failed_is_restarted_and_does_again_what_comes_after_it() {
        let mut world = World::new(after(vec![inline("a")])).evals("a", &[Fail]).start().finished();
        world.must(Input::Restart { by: by() });
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        world.assert_ends(&["a:failed", "tell:success", "post:success", "a:success", "tell:success", "post:success"]);
        assert_ne!(world.intents("post")[0].2, world.intents("post")[1].2, "another end, another message");
    }

    fn a_crash_after_the_end_goes_on_with_what_comes_after_it() {
        let mut world = World::new(after(vec![inline("a")])).evals("a", &[Fail]).evals("tell", &[Silence]).start();
        world.answer_all();
        assert_eq!((world.status(), world.state.concluded.is_some()), (Status::Running, true));
        world.crash();
        world.finish();
        assert_eq!(world.status(), Status::Failed);
        world.assert_ends(&["a:failed", "tell:success", "post:success"]);
    }

    fn a_cancel_ends_what_comes_after_the_end_and_keeps_the_end() {
        let mut world = World::new(after(vec![inline("a")])).evals("tell", &[Silence]).start();
        world.answer_all();
        assert!(world.must(stop(EndStatus::Failed)).events.is_empty());
        world.must(Input::Cancel { by: by() });
        assert_eq!(world.status(), Status::Completed);
        let mut world = World::new(after(vec![naked("a")])).calls("a", &[Silence]).start();
        world.answer_all();
        world.must(Input::Cancel { by: by() });
        world.finish();
        assert_eq!(world.status(), Status::Cancelled);
        world.assert_ends(&["a:success", "tell:success", "post:success"]);
    }

    fn a_verdict_given_while_the_after_tasks_run_reopens_the_run_behind_them() {
        let mut world = World::new(after(vec![naked("a"), inline("b")])).calls("a", &[Lost]).evals("tell", &[Silence]).start();
        world.answer_all();
        assert!(world.state.concluded.is_some());
        world.verdict("a", VerdictKind::Done).unwrap();
        world.crash();
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }
}
