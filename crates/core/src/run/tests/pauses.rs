//! Steps at which a run stands still.

use super::flows::*;
use super::world::*;
use crate::ir::{InputDef, InputType, OnTime, TaskKind};
use crate::run::*;
use Answer::*;
use serde_json::json;

fn go(step: &str) -> Input {
    Input::ResumeStep { step: key(step), by: by(), inputs: Some(payload("said")), review: None }
}

fn resumed(world: &World) -> serde_json::Value {
    let found = world.journal.iter().rev().find_map(|event| match event {
        Event::StepResumed { output: Some(output), .. } => Some(output.json().clone()),
        _ => None,
    });
    found.expect("a step was resumed")
}

scenarios! {
    fn a_pause_stands_still_until_it_is_resumed() {
        let mut world = World::of(vec![pause("p", 0, OnTime::Resume), inline("a")]).start();
        world.finish();
        assert_eq!(world.status(), Status::Paused);
        assert!(!world.state.is_active() && world.state.timers.is_empty());
        assert!(world.input(go("a")).is_err(), "the run does not stand there");
        world.must(go("p"));
        assert_eq!(resumed(&world), json!({"onResume": {"is": "said"}, "resumed": {"by": "ann", "on": world.now.to_rfc3339(), "to": "RUNNING"}}));
        world.finish();
        world.assert_ends(&["p:success", "a:success"]);
        assert!(world.input(go("p")).is_err(), "it has ended");
    }

    fn the_last_step_of_a_run_may_be_a_pause() {
        let mut world = World::of(vec![pause("p", 0, OnTime::Resume)]).start();
        world.finish();
        world.must(go("p"));
        assert_eq!(world.state.phase, Phase::Finishing);
        let mut world = World::of(vec![pause("p", 0, OnTime::Resume)]).start();
        world.finish();
        world.must(Input::Resume { by: by() });
        assert_eq!(world.state.phase, Phase::Finishing);
    }

    fn a_bare_resume_finds_the_pause_that_was_reached_first() {
        let tasks = vec![pause("x", 0, OnTime::Resume), seq("g", vec![sleep("s", 10), pause("b", 0, OnTime::Resume)])];
        let mut world = World::of(vec![parallel("p", 0, tasks)]).start();
        world.finish();
        for step in ["p/x", "p/g/b"] {
            assert_eq!(world.status(), Status::Paused);
            world.must(Input::Resume { by: by() });
            assert_eq!(world.count(|e| matches!(e, Event::StepResumed { step: found, .. } if found.0 == step)), 1);
        }
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_bare_resume_says_nothing_to_a_pause_that_asks() {
        let reason: InputDef = serde_json::from_value(json!({"id": "reason", "type": "STRING"})).expect("an input");
        assert_eq!(reason.input_type, InputType::String);
        let asking = pause("p", 0, OnTime::Resume).with(|t| match &mut t.kind {
            TaskKind::Pause(spec) => spec.on_resume = vec![reason],
            _ => unreachable!(),
        });
        let mut world = World::of(vec![asking]).start();
        world.finish();
        assert!(world.input(Input::Resume { by: by() }).unwrap_err().to_string().contains("reason"));
        world.must(go("p"));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn its_time_ends_as_its_author_says() {
        for (late, ends, status) in [
            (OnTime::Resume, vec!["p:success", "a:success"], Status::Completed),
            (OnTime::Warn, vec!["p:warning", "a:success"], Status::Completed),
            (OnTime::Fail, vec!["p:failed"], Status::Failed),
            (OnTime::Cancel, vec!["p:cancelled"], Status::Cancelled),
        ] {
            let mut world = World::of(vec![pause("p", 60_000, late), inline("a")]).start();
            world.answer_all();
            world.crash();
            assert_eq!((world.status(), world.state.timers.len()), (Status::Paused, 1));
            world.finish();
            world.assert_ends(&ends);
            assert_eq!(world.status(), status);
            assert_eq!(world.state.warned, late == OnTime::Warn);
        }
    }

    fn resumed_in_time_its_word_about_lateness_does_not_count() {
        let mut world = World::of(vec![pause("p", 60_000, OnTime::Fail)]).start();
        world.answer_all();
        world.must(go("p"));
        assert!(world.state.timers.is_empty());
        world.finish();
        world.assert_ends(&["p:success"]);
    }

    fn what_stands_around_a_pause_runs_before_and_after_it() {
        let around = pause("p", 0, OnTime::Resume).around(vec![read("before")], vec![inline("x"), inline("y")]);
        let mut world = World::of(vec![around.finally(vec![inline("f")])]).start();
        world.finish();
        world.assert_ends(&["p/before:success"]);
        assert_eq!(world.status(), Status::Paused);
        world.must(go("p"));
        world.finish();
        world.assert_ends(&["p/before:success", "p/x:success", "p/y:success", "p/f:success", "p:success"]);
    }

    fn a_failure_before_it_means_no_pause() {
        let around = pause("p", 0, OnTime::Resume).around(vec![read("before")], vec![inline("x")]).errors(vec![inline("e")]);
        let mut world = World::of(vec![around]).calls("before", &[Fail]).start();
        world.finish();
        world.assert_ends(&["p/before:failed", "p/e:success", "p:failed"]);
        world.must(Input::Restart { by: by() });
        world.finish();
        assert_eq!((world.status(), world.intents("p/before").len()), (Status::Paused, 2));
    }

    fn the_errors_of_a_pause_handle_its_lateness() {
        let late = pause("p", 10, OnTime::Fail).around(vec![], vec![inline("x")]).errors(vec![inline("e")]).finally(vec![inline("f")]);
        World::of(vec![late]).start().finished().assert_ends(&["p/e:success", "p/f:success", "p:failed"]);
    }

    fn a_restart_stands_still_once_more_and_does_not_repeat_what_was_done() {
        for late in [OnTime::Fail, OnTime::Cancel] {
            let mut world = World::of(vec![pause("p", 10, late).around(vec![naked("before")], vec![inline("x")])]).start();
            world.finish();
            assert!(world.status().is_ended());
            world.must(Input::Restart { by: by() });
            world.answer_all();
            assert_eq!((world.status(), world.intents("p/before").len()), (Status::Paused, 1));
            world.must(go("p"));
            world.finish();
            assert_eq!(world.status(), Status::Completed);
        }
    }

    fn a_replaced_run_stands_still_again_after_a_restart() {
        let mut world = World::of(vec![pause("p", 0, OnTime::Resume).around(vec![naked("before")], vec![])]).start();
        world.finish();
        assert!(world.replaced());
        world.must(Input::Restart { by: by() });
        world.finish();
        assert_eq!((world.status(), world.intents("p/before").len()), (Status::Paused, 1));
        world.must(go("p"));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_crash_while_a_pause_is_prepared_asks_again() {
        let around = pause("p", 0, OnTime::Resume).around(vec![inline("before")], vec![]);
        let mut world = World::of(vec![around]).evals("p", &[Good, Silence]).start();
        world.answer_all();
        assert!(world.state.is_active(), "what comes next is not known yet");
        world.crash();
        world.finish();
        assert_eq!(world.status(), Status::Paused);
    }

    fn a_paused_run_may_go_on_from_its_pause_and_starts_nothing() {
        let around = pause("p", 0, OnTime::Resume).around(vec![], vec![inline("x")]);
        let mut world = World::of(vec![around]).start();
        world.finish();
        world.must(Input::Pause { by: by() });
        world.must(go("p"));
        world.finish();
        assert_eq!(world.status(), Status::Paused);
        world.must(Input::Resume { by: by() });
        world.finish();
        world.assert_ends(&["p/x:success", "p:success"]);
    }

    fn what_is_asked_in_a_paused_run_is_asked_when_it_goes_on() {
        let around = pause("p", 0, OnTime::Resume).around(vec![read("before")], vec![]);
        let mut world = World::of(vec![around]).calls("before", &[Silence]).start();
        world.answer_all();
        world.must(Input::Pause { by: by() });
        let action = world.pending.pop_front().expect("a send");
        world.answer_with(&action, Good);
        world.finish();
        assert_eq!(world.count(|e| matches!(e, Event::GroupAsks { .. })), 0);
        world.must(Input::Resume { by: by() });
        world.finish();
        assert_eq!(world.count(|e| matches!(e, Event::StepPaused { .. })), 1);
    }

    fn cancel_ends_a_pause() {
        let mut world = World::of(vec![pause("p", 60_000, OnTime::Resume), inline("a")]).start();
        world.answer_all();
        world.must(Input::Cancel { by: by() });
        world.assert_ends(&["p:cancelled"]);
        assert_eq!(world.status(), Status::Cancelled);
        assert!(world.state.timers.is_empty());
    }
}
