//! What a person's verdict does: in open runs, in ended ones, with several doubts.

use super::flows::*;
use super::world::*;
use crate::ids::RunId;
use crate::ir::{OnDoubt, Task};
use crate::run::*;
use Answer::*;
use VerdictKind::{Done, Fail as CalledFailed, Repeat, RepeatNewKey};

/// Held at the step: the process died in mid-effect.
fn held(task: Task) -> World {
    let id = task.id.clone();
    let mut world = World::of(vec![task, inline("last")]).calls(&id, &[Silence]).start();
    world.answer_all();
    world.crash();
    assert_eq!((world.status(), world.state.phase), (Status::Held, Phase::Open));
    world
}

/// Failed with a doubt: the answer was lost.
fn failed(task: Task) -> World {
    let id = task.id.clone();
    let world = World::of(vec![task, inline("last")]).calls(&id, &[Lost]).start().finished();
    assert_eq!((world.status(), world.state.phase), (Status::Held, Phase::Ended(EndStatus::Failed)));
    world
}

fn restart() -> Input {
    Input::Restart { by: by() }
}

scenarios! {
    fn done_ends_a_held_step_with_the_result_given() {
        let mut world = held(naked("a"));
        world.verdict("a", Done).expect("possible");
        world.finish();
        world.assert_ends(&["a:success", "last:success"]);
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 1));
        let output = world.journal.iter().find_map(|e| match e {
            Event::StepEnded { step, output, .. } if step.0 == "a" => output.clone(),
            _ => None,
        });
        assert_eq!(output, Some(payload("found")));
        let mut world = World::of(vec![naked("only")]).calls("only", &[Silence]).start();
        world.answer_all();
        world.crash();
        world.verdict("only", Done).expect("possible");
        assert_eq!(world.state.phase, Phase::Finishing);
    }

    fn repeat_sends_a_held_step_again_with_its_key() {
        let mut world = held(naked("a"));
        world.verdict("a", Repeat).expect("possible");
        world.finish();
        let intents = world.intents("a");
        assert_eq!((intents.len(), &intents[0].2, world.status()), (2, &intents[1].2, Status::Completed));
    }

    fn repeat_new_key_sends_a_held_step_with_another_key_each_time() {
        let mut world = held(naked("a"));
        for _ in 0..3 {
            world.verdict("a", RepeatNewKey).expect("possible");
            world.crash();
            assert_eq!(world.status(), Status::Held);
        }
        let mut keys: Vec<String> = world.intents("a").into_iter().map(|(_, _, key)| key).collect();
        keys.dedup();
        assert_eq!(keys.len(), 4);

        let mut world = World::of(vec![keyed("a")]).calls("a", &[Silence]).start();
        world.answer_all();
        world.now = world.now.plus(60_000);
        world.crash();
        world.verdict("a", RepeatNewKey).expect("possible");
        world.now = world.now.plus(59_999);
        world.crash();
        assert_eq!(world.intents("a").len(), 3, "the new key has a window of its own");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn fail_fails_a_held_step_and_handlers_run() {
        let flow = flow(vec![naked("a").retried(5, 10)]).with(|f| {
            f.errors = vec![inline("e")];
            f.retry = Some(retry(5, 10));
        });
        let mut world = World::new(flow).calls("a", &[Silence]).start();
        world.answer_all();
        world.crash();
        world.verdict("a", CalledFailed).expect("possible");
        world.finish();
        world.assert_ends(&["a:failed", "e:success"]);
        assert_eq!((world.status(), world.intents("a").len()), (Status::Failed, 1), "no policy sends it again");
        world.must(restart());
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 2), "a person may");
        let mut world = World::of(vec![naked("a")]).calls("a", &[Silence]).start();
        world.answer_all();
        world.crash();
        world.verdict("a", CalledFailed).expect("possible");
        assert_eq!(world.status(), Status::Failed);
    }

    fn done_before_the_group_has_ended_leaves_nothing_to_handle() {
        let crashed = || {
            let tasks = vec![naked("a"), naked("b"), naked("c").on_doubt(OnDoubt::Fail), inline("d")];
            let mut world = World::of(vec![parallel("all", 3, tasks).errors(vec![inline("e")]), inline("last")]);
            for id in ["a", "b", "c"] {
                world = world.calls(id, &[Silence]);
            }
            let mut world = world.start();
            world.answer_all();
            world.crash();
            assert_eq!((world.status(), world.state.open_doubts()), (Status::Held, 3));
            world
        };
        let mut world = crashed();
        world.verdict("all/c", Done).expect("possible");
        for id in ["all/a", "all/b"] {
            world.verdict(id, Done).expect("possible");
        }
        world.finish();
        world.assert_ends(&[
            "all/c:failed", "all/c:success", "all/a:success", "all/b:success", "all/d:success", "all:success",
            "last:success",
        ]);
        assert_eq!(world.status(), Status::Completed);

        // One that did fail keeps the group failed, and the verdict waits for the run's end.
        let mut world = crashed();
        world.verdict("all/a", CalledFailed).expect("possible");
        world.verdict("all/c", Done).expect("possible");
        world.verdict("all/b", Done).expect("possible");
        world.finish();
        assert!(world.ends().contains(&"all/e:success".to_owned()));
        assert_eq!(world.status(), Status::Failed);
    }

    fn a_verdict_needs_an_open_doubt_and_done_a_result() {
        let mut world = held(naked("a"));
        assert!(world.verdict("last", Done).is_err());
        let without = Input::Verdict { step: key("a"), verdict: Done, by: by(), result: None };
        assert!(world.input(without).is_err());
        world.verdict("a", Repeat).expect("possible");
        assert!(world.verdict("a", Repeat).is_err(), "settled already");
        let mut world = failed(naked("a"));
        world.verdict("a", CalledFailed).expect("possible");
        assert!(world.verdict("a", Done).is_err());
        assert_eq!(world.status(), Status::Failed);
    }

    fn done_in_a_failed_run_goes_on_behind_the_step() {
        let mut world = failed(naked("a"));
        world.verdict("a", Done).expect("possible");
        world.finish();
        world.assert_ends(&["a:failed", "a:success", "last:success"]);
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 1));
        let mut world = World::of(vec![naked("only")]).calls("only", &[Lost]).start().finished();
        world.verdict("only", Done).expect("possible");
        assert_eq!(world.state.phase, Phase::Finishing);
    }

    fn repeat_in_a_failed_run_sends_the_step_again() {
        for (verdict, same_key) in [(Repeat, true), (RepeatNewKey, false)] {
            let mut world = failed(naked("a"));
            world.verdict("a", verdict).expect("possible");
            world.finish();
            let intents = world.intents("a");
            assert_eq!((intents.len(), intents[0].2 == intents[1].2), (2, same_key));
            assert_eq!(world.status(), Status::Completed);
        }
    }

    fn a_verdict_counts_once() {
        for verdict in [Repeat, RepeatNewKey] {
            let mut world = World::of(vec![naked("a")]).calls("a", &[Lost, Fail, Fail]).start().finished();
            world.verdict("a", verdict).expect("possible");
            world.finish();
            assert_eq!((world.status(), world.intents("a").len()), (Status::Failed, 2));
        }
        let flow = flow(vec![naked("a")]).with(|f| f.retry = Some(retry(9, 10)));
        let mut world = World::new(flow).calls("a", &[Lost, Fail]).start().finished();
        world.verdict("a", CalledFailed).expect("possible");
        world.must(restart());
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 3), "the flow's retry applies again");
    }

    fn new_keys_differ_before_and_after_a_restart() {
        let mut world = World::of(vec![naked("a")]).calls("a", &[Lost, Lost, Silence]).start().finished();
        for _ in 0..2 {
            world.verdict("a", RepeatNewKey).expect("possible");
            world.finish();
        }
        world.crash();
        world.verdict("a", RepeatNewKey).expect("possible");
        let keys: std::collections::BTreeSet<String> = world.intents("a").into_iter().map(|(_, _, key)| key).collect();
        assert_eq!(keys.len(), 4);
    }

    fn fail_in_a_failed_run_leaves_it_failed_until_a_restart() {
        let mut world = failed(naked("a"));
        world.verdict("a", CalledFailed).expect("possible");
        assert_eq!(world.status(), Status::Failed);
        world.must(restart());
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 2));
    }

    fn with_several_doubts_the_last_verdict_moves_the_run() {
        let tasks = || vec![parallel("p", 0, vec![naked("a"), naked("b"), naked("c")])];
        let lost = || World::of(tasks()).calls("a", &[Lost]).calls("b", &[Lost]).calls("c", &[Lost]).start().finished();
        let mut world = lost();
        assert_eq!(world.state.open_doubts(), 3);
        world.verdict("p/a", Done).expect("possible");
        world.verdict("p/b", Repeat).expect("possible");
        assert_eq!(world.status(), Status::Held);
        assert!(world.input(restart()).is_err());
        world.verdict("p/c", Done).expect("possible");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert_eq!(["a", "b", "c"].map(|t| world.intents(&format!("p/{t}")).len()), [1, 2, 1]);

        // One of them was called failed: it stays failed, and is not sent again.
        let mut world = lost();
        world.verdict("p/a", CalledFailed).expect("possible");
        world.verdict("p/b", Repeat).expect("possible");
        world.verdict("p/c", Done).expect("possible");
        world.finish();
        assert_eq!(["a", "b", "c"].map(|t| world.intents(&format!("p/{t}")).len()), [1, 2, 1]);
        assert_eq!(world.status(), Status::Failed);
        world.must(restart());
        world.finish();
        assert_eq!(["a", "b", "c"].map(|t| world.intents(&format!("p/{t}")).len()), [2, 2, 1]);
        assert_eq!(world.status(), Status::Completed);

        // Held steps go on one by one.
        let mut world = World::of(tasks()).calls("a", &[Silence]).calls("b", &[Silence]).start();
        world.answer_all();
        world.crash();
        world.verdict("p/b", Repeat).expect("possible");
        world.finish();
        assert_eq!((world.status(), world.state.open_doubts()), (Status::Held, 1));
        world.verdict("p/a", Done).expect("possible");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    /// The same verdict has the same effect a moment before the run's end and a moment after it.
    fn a_verdict_given_while_handlers_run_is_acted_on_at_the_end() {
        let flow = flow(vec![naked("a"), inline("last")]).with(|f| f.errors = vec![sleep("e", 1000)]);
        for (verdict, sends) in [(Done, 1), (Repeat, 2), (RepeatNewKey, 2)] {
            let mut world = World::new(flow.clone()).calls("a", &[Lost]).start();
            world.answer_all();
            assert_eq!(world.status(), Status::Waiting);
            world.verdict("a", verdict).expect("possible");
            world.finish();
            assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, sends));
        }
        let mut world = World::new(flow).calls("a", &[Lost]).start();
        world.answer_all();
        world.verdict("a", CalledFailed).expect("possible");
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Failed, 1));
    }

    /// A handler is not a place to go on from: it runs anew when the body fails anew.
    fn a_verdict_at_a_handler_or_a_tolerated_step_does_not_reopen_the_run() {
        let flow = flow(vec![naked("ok").may_fail(), inline("a")]).with(|f| f.errors = vec![naked("mail")]);
        let mut world = World::new(flow).calls("ok", &[Lost]).calls("mail", &[Lost]).evals("a", &[Fail]).start().finished();
        assert_eq!((world.status(), world.state.open_doubts()), (Status::Held, 2));
        world.verdict("mail", Done).expect("possible");
        world.verdict("ok", Repeat).expect("possible");
        assert_eq!(world.status(), Status::Failed);
        world.must(restart());
        world.finish();
        world.assert_ends(&["ok:failed?", "a:failed", "mail:failed", "a:success"]);
    }

    fn a_verdict_in_a_completed_or_cancelled_run_is_kept() {
        let mut world = World::of(vec![naked("a").may_fail()]).calls("a", &[Lost]).start().finished();
        assert!(world.input(Input::Replay { by: by(), from: None }).is_err(), "in doubt");
        world.verdict("a", Repeat).expect("possible");
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 1));

        let mut world = held(naked("a"));
        world.must(Input::Cancel { by: by() });
        assert_eq!((world.status(), world.state.phase), (Status::Held, Phase::Ended(EndStatus::Cancelled)));
        assert!(world.input(restart()).is_err(), "in doubt");
        world.verdict("a", Done).expect("possible");
        assert_eq!(world.status(), Status::Cancelled);
        world.must(restart());
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 1), "done stays done");
    }

    fn a_verdict_in_a_paused_run_waits_for_resume() {
        for verdict in [Repeat, RepeatNewKey] {
            let mut world = held(naked("a"));
            world.must(Input::Pause { by: by() });
            world.verdict("a", verdict).expect("possible");
            world.finish();
            assert_eq!((world.status(), world.intents("a").len()), (Status::Paused, 1));
            world.must(Input::Resume { by: by() });
            world.finish();
            let intents = world.intents("a");
            assert_eq!((world.status(), intents.len()), (Status::Completed, 2));
            assert_eq!(intents[0].2 == intents[1].2, verdict == Repeat);
        }
    }

    fn on_doubt_fail_then_repeat_by_verdict() {
        let mut world = World::of(vec![naked("a").on_doubt(OnDoubt::Fail)]).calls("a", &[Silence]).start();
        world.answer_all();
        world.crash();
        assert_eq!(world.status(), Status::Held);
        world.verdict("a", Repeat).expect("possible");
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 2));
    }

    fn doubts_below_hold_a_run_until_they_are_settled() {
        let child = RunId(uuid::Uuid::from_u128(5));
        let mut world = failed(naked("a"));
        world.must(Input::DoubtsBelow { run: child, count: 2 });
        assert!(world.must(Input::DoubtsBelow { run: child, count: 2 }).events.is_empty(), "told twice");
        world.verdict("a", Repeat).expect("possible");
        assert_eq!((world.status(), world.state.open_doubts()), (Status::Held, 2));
        assert!(world.input(Input::Replay { by: by(), from: None }).is_err());
        world.must(Input::DoubtsBelow { run: child, count: 0 });
        world.finish();
        assert_eq!(world.status(), Status::Completed, "the verdict is acted on when the last doubt is settled");

        let mut world = World::of(vec![inline("a")]).evals("a", &[Fail]).start();
        world.must(Input::DoubtsBelow { run: child, count: 1 });
        world.finish();
        assert_eq!((world.status(), world.state.phase), (Status::Held, Phase::Ended(EndStatus::Failed)));
        world.must(Input::DoubtsBelow { run: child, count: 0 });
        assert_eq!(world.status(), Status::Failed);
    }
}
