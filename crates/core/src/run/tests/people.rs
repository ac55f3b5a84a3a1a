//! Pause, resume, cancel, restart and replay, in every phase.

use super::flows::*;
use super::world::*;
use crate::run::*;
use Answer::*;

fn pause() -> Input {
    Input::Pause { by: by() }
}

fn resume() -> Input {
    Input::Resume { by: by() }
}

fn cancel() -> Input {
    Input::Cancel { by: by() }
}

fn restart() -> Input {
    Input::Restart { by: by() }
}

fn replay(from: Option<&str>) -> Input {
    Input::Replay { by: by(), from: from.map(str::to_owned) }
}

scenarios! {
    fn a_waiting_run_can_be_cancelled_and_nothing_else() {
        let mut world = World::of(vec![inline("a")]);
        for input in [pause(), resume(), restart(), replay(None)] {
            assert!(world.input(input).is_err());
        }
        world.must(cancel());
        assert_eq!(world.status(), Status::Cancelled);
        assert!(world.must(Input::Start).events.is_empty());
        world.must(restart());
        world.finish();
        world.assert_ends(&["a:success"]);
    }

    fn a_paused_run_starts_nothing_and_resume_finds_all() {
        let mut world = World::of(vec![parallel("p", 2, vec![inline("a"), read("b"), inline("c")]), inline("d")]).start();
        world.must(pause());
        assert!(world.input(pause()).is_err(), "paused already");
        world.answer_all();
        world.assert_ends(&[]);
        assert_eq!(world.status(), Status::Paused);
        world.must(resume());
        assert!(world.input(resume()).is_err());
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn an_evaluation_that_ends_in_a_paused_run_is_dropped_and_asked_for_again() {
        for task in [inline("a"), naked("a"), op("a"), sleep("a", 10), subflow("a")] {
            let mut world = World::of(vec![task]).start();
            world.must(pause());
            let journal = world.journal.len();
            world.answer_all();
            assert_eq!((world.journal.len(), world.status()), (journal, Status::Paused));
            assert_eq!(world.must(resume()).actions, [Action::Evaluate(key("a"))]);
        }
    }

    fn what_was_sent_settles_in_a_paused_run() {
        let mut world = World::of(vec![naked("a"), naked("b")]).calls("a", &[Silence]).start();
        world.answer_all();
        world.must(pause());
        assert_eq!(world.status(), Status::Running, "an answer is awaited");
        world.finish();
        world.assert_ends(&["a:success"]);
        assert_eq!((world.status(), world.intents("b").len()), (Status::Paused, 0));
        world.crash();
        world.finish();
        assert_eq!((world.status(), world.intents("b").len()), (Status::Paused, 0));
        world.must(resume());
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn repeats_and_retries_wait_for_resume() {
        for answer in [Lost, Fail] {
            let mut world = World::of(vec![read("a").retried(2, 10)]).calls("a", &[Silence]).start();
            world.answer_all();
            world.must(pause());
            let action = world.pending.pop_front().expect("a send");
            world.answer_with(&action, answer);
            world.finish();
            assert_eq!((world.status(), world.intents("a").len()), (Status::Paused, 1));
            world.must(resume());
            world.finish();
            assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 2));
        }
        let mut world = World::of(vec![inline("a").retried(2, 10)]).evals("a", &[Fail]).start();
        world.answer_all();
        world.must(pause());
        world.finish();
        assert_eq!(world.status(), Status::Paused);
        world.must(resume());
        world.finish();
        world.assert_ends(&["a:success"]);
    }

    fn a_crash_in_a_paused_run_sends_nothing_before_resume() {
        let mut world = World::of(vec![keyed("a")]).calls("a", &[Silence]).start();
        world.answer_all();
        world.must(pause());
        world.crash();
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Paused, 1));
        world.now = world.now.plus(60_000);
        world.must(resume());
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Held, 1), "the window is over by now");
    }

    fn a_sleep_ends_in_a_paused_run_and_the_next_step_waits() {
        let mut world = World::of(vec![sleep("s", 10), inline("a")]).start();
        world.answer_all();
        world.must(pause());
        world.finish();
        world.assert_ends(&["s:success"]);
        world.must(resume());
        world.finish();
        world.assert_ends(&["s:success", "a:success"]);
    }

    fn handlers_and_the_flows_retry_wait_for_resume() {
        let flow = flow(vec![naked("a")]).with(|f| f.errors = vec![inline("e")]);
        let mut world = World::new(flow.clone()).calls("a", &[Silence]).start();
        world.answer_all();
        world.must(pause());
        let action = world.pending.pop_front().expect("a send");
        world.answer_with(&action, Fail);
        world.finish();
        world.assert_ends(&["a:failed"]);
        assert_eq!(world.status(), Status::Paused);
        world.must(resume());
        world.finish();
        world.assert_ends(&["a:failed", "e:success"]);

        let retried = flow.with(|f| {
            f.errors = vec![];
            f.retry = Some(retry(2, 10));
        });
        let mut world = World::new(retried).calls("a", &[Silence]).start();
        world.answer_all();
        world.must(pause());
        let action = world.pending.pop_front().expect("a send");
        world.answer_with(&action, Fail);
        assert_eq!(world.state.phase, Phase::RetryLater);
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Paused, 1));
        world.must(resume());
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 2));
    }

    fn the_last_step_of_a_paused_run_may_end_it() {
        let mut world = World::of(vec![naked("a")]).calls("a", &[Silence]).evals("outputs", &[Silence]).start();
        world.answer_all();
        world.must(pause());
        world.answer_all();
        assert_eq!(world.state.phase, Phase::Finishing);
        assert!(world.input(pause()).is_err());
        world.finish();
        assert_eq!((world.status(), world.state.paused), (Status::Completed, false));
        assert!(world.input(resume()).is_err());
        assert!(world.input(pause()).is_err());
    }

    fn cancel_ends_what_waits_and_lets_what_was_sent_settle() {
        let tasks = vec![naked("n"), sleep("s", 1000), inline("i"), op("o"), read("r").retried(9, 500), seq("g", vec![inline("j")])];
        let mut world = World::of(vec![parallel("p", 0, tasks), inline("never")])
            .calls("n", &[Silence])
            .calls("o", &[Silence])
            .calls("r", &[Fail])
            .evals("i", &[Silence])
            .evals("j", &[Silence])
            .start();
        world.answer_all();
        world.must(cancel());
        assert!(world.must(cancel()).events.is_empty(), "it is being cancelled already");
        assert!(world.input(pause()).is_err());
        assert!(world.input(restart()).is_err());
        assert_eq!(world.state.phase, Phase::Open, "two answers are awaited");
        world.answer_all();
        assert_eq!(world.status(), Status::Cancelled);
        world.assert_ends(&[
            "p/g/j:cancelled", "p/i:cancelled", "p/r:cancelled", "p/s:cancelled", "p/g:cancelled",
            "p/n:success", "p/o:success", "p:cancelled",
        ]);
        world.must(restart());
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert_eq!(world.intents("p/n").len(), 1, "what had settled well is kept");
    }

    fn the_answer_to_a_cancelled_effect_counts_by_class() {
        for (task, answer, doubts) in [(naked("a"), Lost, 1), (naked("a"), Fail, 0), (keyed("a"), Lost, 1), (read("a"), Lost, 0)] {
            let mut world = World::of(vec![task.retried(5, 10)]).calls("a", &[Silence]).start();
            world.answer_all();
            world.must(cancel());
            let action = world.pending.pop_front().expect("a send");
            world.answer_with(&action, answer);
            assert_eq!(world.state.phase, Phase::Ended(EndStatus::Cancelled));
            assert_eq!(world.state.open_doubts(), doubts);
            world.assert_ends(&["a:cancelled"]);
        }
    }

    /// A request whose answer was lost may have arrived, repeat or no repeat.
    fn cancel_before_the_repeat_of_a_lost_request_leaves_a_doubt() {
        for (task, doubts) in [(keyed("a"), 1), (read("a"), 0)] {
            let mut world = World::of(vec![task]).calls("a", &[Lost]).start();
            world.answer_all();
            world.must(cancel());
            assert_eq!((world.state.phase, world.state.open_doubts()), (Phase::Ended(EndStatus::Cancelled), doubts));
        }
    }

    fn a_crash_while_cancelling_settles_by_class() {
        for (task, doubts) in [(naked("a"), 1), (keyed("a"), 1), (read("a"), 0), (op("a"), 0), (subflow("a"), 0)] {
            let mut world = World::of(vec![task]).calls("a", &[Silence]).start();
            world.answer_all();
            world.must(cancel());
            assert_eq!(world.state.phase, Phase::Open);
            world.crash();
            assert_eq!((world.state.phase, world.state.open_doubts()), (Phase::Ended(EndStatus::Cancelled), doubts));
            assert!(world.pending.is_empty());
        }
    }

    fn an_op_that_fails_while_cancelling_is_cancelled() {
        let mut world = World::of(vec![op("a").retried(9, 10)]).calls("a", &[Silence, Fail]).start();
        world.answer_all();
        world.must(cancel());
        world.carry_op(&key("a"), true);
        world.must(Input::Continue);
        assert_eq!(world.status(), Status::Cancelled);
    }

    fn handlers_do_not_run_when_cancelled_and_cancel_stops_handlers() {
        let group = || seq("g", vec![inline("a")]).errors(vec![sleep("e", 10)]).finally(vec![inline("f")]);
        let mut world = World::of(vec![group()]).evals("a", &[Silence]).start();
        world.answer_all();
        world.must(cancel());
        world.assert_ends(&["g/a:cancelled", "g:cancelled"]);
        assert_eq!(world.count(|e| matches!(e, Event::GroupStage { .. })), 0);
        let mut world = World::of(vec![group()]).evals("a", &[Fail]).start();
        world.answer_all();
        world.must(cancel());
        world.assert_ends(&["g/a:failed", "g/e:cancelled", "g:cancelled"]);
        world.must(restart());
        world.finish();
        world.assert_ends(&["g/a:failed", "g/e:cancelled", "g:cancelled", "g/a:success", "g/f:success", "g:success"]);
    }

    fn cancel_while_finishing_and_while_paused() {
        let mut world = World::of(vec![inline("a")]).evals("outputs", &[Silence]).start();
        world.answer_all();
        world.must(cancel());
        assert_eq!(world.status(), Status::Cancelled);
        world.finish();
        assert_eq!(world.status(), Status::Cancelled, "late outputs are dropped");
        let mut world = World::of(vec![inline("a"), inline("b")]).start();
        world.must(pause());
        world.must(cancel());
        assert_eq!(world.status(), Status::Cancelled);
        let mut world = World::of(vec![naked("a")]).calls("a", &[Silence]).start();
        world.answer_all();
        world.must(pause());
        world.must(cancel());
        assert!(!world.state.paused, "cancel ends the pause");
    }

    /// A newer event of the same lane takes the run's place while it waits.
    fn a_replaced_run_can_be_restarted() {
        let body = vec![sleep("s", 10), naked("n").retried(3, 10), subflow("c"), inline("i"), seq("g", vec![sleep("z", 5)])];
        let flow = flow(vec![inline("a"), parallel("p", 0, body)]).with(|f| f.finally = vec![inline("f")]);
        let mut world = World::new(flow).calls("n", &[Fail]).evals("i", &[Silence]).start();
        world.answer_all();
        assert!(world.replaced());
        assert_eq!(world.status(), Status::Cancelled);
        world.must(restart());
        world.answer_all();
        world.child_ends(2, EndStatus::Completed, 0);
        world.finish();
        assert_eq!((world.status(), world.intents("p/n").len()), (Status::Completed, 2));

        let handled = seq("g", vec![inline("a")]).errors(vec![sleep("e", 10)]);
        let mut world = World::of(vec![handled]).evals("a", &[Fail]).start();
        world.answer_all();
        assert!(world.replaced());
        world.must(restart());
        world.finish();
        world.assert_ends(&["g/a:failed", "g/a:success", "g:success"]);
    }

    /// A lost request may have arrived: the run is not quiet while it waits for the repeat.
    fn a_run_with_a_lost_request_is_not_replaced() {
        for (task, quiet) in [(keyed("a"), false), (read("a"), true), (naked("a").on_doubt(crate::ir::OnDoubt::Repeat), false)] {
            let mut world = World::of(vec![task]).calls("a", &[Lost]).start();
            world.answer_all();
            assert_eq!(world.status(), Status::Waiting);
            assert_eq!(world.replaced(), quiet);
        }
    }

    fn an_ended_run_cannot_be_cancelled() {
        let mut world = World::of(vec![inline("a")]).start().finished();
        assert!(world.input(cancel()).is_err());
        assert!(world.input(restart()).is_err(), "completed: use replay");
        let mut world = World::of(vec![inline("a")]).evals("a", &[Fail]).start().finished();
        assert!(world.input(cancel()).is_err());
        assert!(world.input(resume()).is_err());
    }

    fn a_restart_goes_on_from_the_failed_steps_and_keeps_finished_ones() {
        let each = each("e", 4, 2, vec![naked("pay"), inline("note")]);
        let mut world = World::of(vec![naked("first"), each, inline("last")]).evals("e[1]/note", &[Fail]).start().finished();
        assert_eq!(world.status(), Status::Failed);
        assert!(world.input(replay(Some("last"))).is_err(), "never reached");
        let id = world.state.step_id(&key("e[1]/note"));
        world.must(restart());
        assert_eq!(world.state.step_id(&key("e[1]/note")), id, "the same step");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert_eq!(world.intents("first").len(), 1);
        for n in 0..4 {
            assert_eq!(world.intents(&format!("e[{n}]/pay")).len(), 1, "iteration {n}");
        }
    }

    fn a_restarted_effect_keeps_its_key() {
        let mut world = World::of(vec![naked("a")]).calls("a", &[Fail]).start().finished();
        world.must(restart());
        world.finish();
        let intents = world.intents("a");
        assert_eq!((intents.len(), &intents[0].2), (2, &intents[1].2));
    }

    fn a_restart_begins_the_retries_of_a_step_anew() {
        let policy = retry(2, 500).with(|r| r.max_duration_ms = Some(1000));
        let answers = [Fail, Fail, Fail, Good];
        let mut world = World::of(vec![inline("a").with(|t| t.retry = Some(policy))]).evals("a", &answers).start().finished();
        assert_eq!(world.status(), Status::Failed);
        world.now = world.now.plus(100_000);
        world.must(restart());
        world.finish();
        world.assert_ends(&["a:failed", "a:success"]);
    }

    fn handlers_get_new_step_ids_after_a_restart() {
        let flow = flow(vec![inline("a")]).with(|f| {
            f.errors = vec![seq("g", vec![naked("mail")])];
            f.finally = vec![naked("tidy")];
        });
        let mut world = World::new(flow).evals("a", &[Fail, Fail]).start().finished();
        world.must(restart());
        world.finish();
        for step in ["g/mail", "tidy"] {
            let intents = world.intents(step);
            assert_eq!(intents.len(), 2, "{step} runs anew");
            assert_ne!(intents[0].2, intents[1].2, "{step}");
        }
        world.must(restart());
        world.finish();
        assert_eq!((world.status(), world.intents("tidy").len()), (Status::Completed, 3));
    }

    fn a_restart_after_failing_outputs_only_finishes_again() {
        let mut world = World::of(vec![naked("a")]).evals("outputs", &[Fail]).start().finished();
        world.must(restart());
        world.finish();
        assert_eq!((world.status(), world.intents("a").len()), (Status::Completed, 1));
    }

    fn a_replay_redoes_from_a_task_on_with_new_ids() {
        let mut world = World::of(vec![naked("a"), naked("b"), naked("c")]).start().finished();
        assert!(world.input(replay(Some("nope"))).is_err());
        world.must(replay(Some("b")));
        world.finish();
        assert_eq!((world.status(), world.state.take), (Status::Completed, 1));
        assert_eq!(["a", "b", "c"].map(|t| world.intents(t).len()), [1, 2, 2]);
        let intents = world.intents("b");
        assert_ne!(intents[0].2, intents[1].2, "a person asked for it again: a new effect");
        world.must(replay(None));
        world.finish();
        assert_eq!(["a", "b", "c"].map(|t| world.intents(t).len()), [2, 3, 3]);
    }

    fn failed_and_cancelled_runs_can_be_replayed_and_open_ones_cannot() {
        let mut world = World::of(vec![inline("a"), naked("b")]).calls("b", &[Fail, Lost]).start();
        assert!(world.input(replay(None)).is_err());
        world.finish();
        world.must(replay(Some("b")));
        world.finish();
        assert_eq!(world.status(), Status::Held);
        assert!(world.input(replay(None)).is_err(), "in doubt");
        let mut world = World::of(vec![sleep("a", 10)]).start();
        world.answer_all();
        world.must(cancel());
        world.must(replay(None));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }
}
