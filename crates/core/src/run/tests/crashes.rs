//! The process dies: at every point, with every class.

use super::flows::*;
use super::world::*;
use crate::ir::{EffectClass, OnDoubt};
use crate::run::*;
use Answer::*;

fn in_flight(task: crate::ir::Task) -> World {
    let id = task.id.clone();
    let mut world = World::of(vec![task, inline("last")]).calls(&id, &[Silence]).start();
    world.answer_all();
    world
}

scenarios! {
    fn a_crash_in_mid_effect_repeats_harmless_classes() {
        for class in [EffectClass::Pure, EffectClass::Read, EffectClass::Repeatable, EffectClass::Keyed] {
            let mut world = in_flight(effect("a", class));
            world.crash();
            let intents = world.intents("a");
            assert_eq!((intents.len(), &intents[0].2), (2, &intents[1].2), "{class:?}");
            world.finish();
            assert_eq!(world.status(), Status::Completed);
        }
    }

    fn a_crash_in_mid_effect_holds_fails_or_repeats_a_naked_step() {
        for class in [EffectClass::Naked, EffectClass::Probed, EffectClass::Transactional] {
            let mut world = in_flight(effect("a", class));
            world.crash();
            assert_eq!((world.status(), world.state.phase), (Status::Held, Phase::Open), "{class:?}");
            world.crash();
            assert_eq!(world.intents("a").len(), 1, "and a second crash changes nothing");

            let mut world = in_flight(effect("a", class).on_doubt(OnDoubt::Fail));
            world.crash();
            assert_eq!((world.status(), world.state.phase), (Status::Held, Phase::Ended(EndStatus::Failed)), "{class:?}");

            let mut world = in_flight(effect("a", class).on_doubt(OnDoubt::Repeat));
            world.crash();
            world.finish();
            assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 2), "{class:?}");
        }
    }

    fn a_crash_after_the_window_of_a_keyed_step_holds() {
        let mut world = in_flight(keyed("a"));
        world.now = world.now.plus(59_999);
        world.crash();
        assert_eq!(world.intents("a").len(), 2, "just inside");
        world.now = world.now.plus(1);
        world.crash();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Held, 2), "the window counts from the first send");
    }

    fn a_crash_while_evaluating_asks_again() {
        let mut world = World::of(vec![inline("a")]).start();
        world.crash();
        assert_eq!(world.pending, [Action::Evaluate(key("a"))]);
        world.finish();
        world.assert_ends(&["a:success"]);
    }

    fn a_crash_while_finishing_asks_for_the_outputs_again() {
        let mut world = World::of(vec![inline("a")]).evals("outputs", &[Silence]).start();
        world.answer_all();
        assert_eq!(world.state.phase, Phase::Finishing);
        world.crash();
        assert_eq!(world.pending, [Action::EvaluateOutputs]);
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_crash_before_an_op_carries_it_and_after_it_goes_on() {
        let mut world = World::of(vec![op("a"), op("b")]).calls("a", &[Silence]).start();
        world.answer_all();
        world.crash();
        assert_eq!(world.pending, [Action::Op(key("a"))]);
        world.carry_op(&key("a"), false);
        world.crash();
        assert_eq!(world.pending, [Action::Evaluate(key("b"))], "the result is in the journal");
        world.finish();
        world.assert_ends(&["a:success", "b:success"]);

        let mut world = World::of(vec![op("a").retried(2, 10)]).calls("a", &[Silence]).start();
        world.answer_all();
        world.carry_op(&key("a"), true);
        world.crash();
        world.finish();
        world.assert_ends(&["a:success"]);
    }

    fn a_crash_in_a_backoff_keeps_its_timer() {
        let mut world = World::of(vec![naked("a").retried(2, 1000)]).calls("a", &[Fail]).start();
        world.answer_all();
        world.crash();
        assert!(world.pending.is_empty());
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 2));
    }

    /// Whatever has been committed, a crash there and good answers afterwards end the same way.
    fn a_crash_after_any_commit_ends_the_same() {
        let tasks = || {
            let body = vec![inline("a"), read("b"), op("c"), keyed("d").retried(2, 10), sleep("s", 10)];
            vec![each("e", 2, 2, body).errors(vec![inline("x")]).finally(vec![read("y")]), parallel("p", 0, vec![op("q"), inline("r")])]
        };
        let whole = World::of(tasks()).start().finished();
        let mut expected = whole.ends();
        expected.sort();
        for commits in 0.. {
            let mut world = World::of(tasks()).start();
            for _ in 0..commits {
                match world.pending.pop_front() {
                    Some(action) => {
                        world.answer_with(&action, Good);
                    }
                    None => {
                        world.fire_next();
                    }
                }
            }
            let over = world.state.is_ended();
            world.crash();
            world.crash();
            world.finish();
            let mut ends = world.ends();
            ends.sort();
            assert_eq!((world.status(), &ends), (Status::Completed, &expected), "after {commits} commits");
            if over {
                break;
            }
        }
    }

    fn a_crash_of_an_ended_run_changes_nothing() {
        let mut world = World::of(vec![inline("a")]).evals("a", &[Fail]).start().finished();
        let before = world.journal.len();
        world.crash();
        assert_eq!((world.journal.len(), world.pending.len()), (before, 0));
    }

    fn several_crashed_effects_are_judged_each_by_its_class() {
        let tasks = vec![parallel("p", 0, vec![naked("n"), read("r"), keyed("k"), naked("f").on_doubt(OnDoubt::Fail)])];
        let mut world = World::of(tasks).start();
        while let Some(at) = world.pending.iter().position(|a| matches!(a, Action::Evaluate(_))) {
            let action = world.pending.remove(at).expect("it is there");
            world.answer_with(&action, Good);
        }
        assert_eq!(world.state.open_intents(), 4);
        world.crash();
        let counts = ["n", "r", "k", "f"].map(|t| world.intents(&format!("p/{t}")).len());
        assert_eq!((counts, world.state.open_doubts()), ([1, 2, 2, 1], 2));
        world.finish();
        assert_eq!((world.status(), world.state.phase), (Status::Held, Phase::Open), "the held step keeps the run open");
    }
}
