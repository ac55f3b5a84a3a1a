//! A flow that ends its own run.

use super::flows::*;
use super::world::*;
use crate::ir::ExitState;
use crate::run::*;
use Answer::*;

scenarios! {
    fn a_flow_ends_its_run_as_it_says() {
        for (state, word, status) in [
            (ExitState::Success, "success", Status::Completed),
            (ExitState::Warning, "warning", Status::Completed),
            (ExitState::Failed, "failed", Status::Failed),
            (ExitState::Cancelled, "cancelled", Status::Cancelled),
            (ExitState::Killed, "cancelled", Status::Cancelled),
        ] {
            let flow = flow(vec![branch("i", true, vec![exit("x", state), inline("a")], vec![]), inline("b")]).with(|f| {
                (f.errors, f.finally) = (vec![inline("e")], vec![inline("f")]);
                f.retry = Some(retry(3, 1_000));
            });
            let world = World::new(flow).start().finished();
            world.assert_ends(&[&format!("i/x:{word}"), &format!("i:{word}")]);
            assert_eq!((world.status(), world.state.warned), (status, state == ExitState::Warning));
        }
    }

    fn what_was_sent_settles_and_all_else_ends() {
        let tasks = vec![naked("sent"), sleep("s", 1_000), pause("p", 0, crate::ir::OnTime::Resume), subflow("c"), seq("g", vec![sleep("t", 5), exit("x", ExitState::Success)])];
        let mut world = World::of(vec![parallel("all", 0, tasks), inline("b")]).calls("sent", &[Silence, Silence]).start();
        world.answer_all();
        world.fire_next();
        world.answer_all();
        assert_eq!(world.status(), Status::Running, "an answer is awaited");
        assert!(!world.asked.iter().any(|action| matches!(action, Action::CancelChild { .. })), "a sub-run goes on by itself");
        world.crash();
        assert!(world.status() == Status::Held, "what was in doubt stays so");
        world.verdict("all/sent", VerdictKind::Done).expect("a doubt is open");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn an_answer_after_the_exit_ends_the_run() {
        let tasks = vec![naked("sent"), exit("x", ExitState::Failed)];
        let mut world = World::of(vec![parallel("all", 0, tasks)]).calls("sent", &[Silence]).start();
        world.answer_all();
        assert_eq!(world.status(), Status::Running);
        assert!(world.input(Input::Pause { by: by() }).is_err());
        let action = world.pending.pop_front().expect("a send");
        world.answer_with(&action, Good);
        assert_eq!(world.status(), Status::Failed);
        world.must(Input::Restart { by: by() });
        world.finish();
        assert_eq!((world.status(), world.intents("all/sent").len()), (Status::Failed, 1), "it ends itself again");
    }

    fn a_run_that_ends_itself_may_be_cancelled() {
        let tasks = vec![naked("sent"), exit("x", ExitState::Success)];
        let mut world = World::of(vec![parallel("all", 0, tasks)]).calls("sent", &[Silence]).start();
        world.answer_all();
        world.must(Input::Cancel { by: by() });
        let action = world.pending.pop_front().expect("a send");
        world.answer_with(&action, Good);
        assert_eq!(world.status(), Status::Cancelled);
    }

    fn a_killed_run_stops_its_sub_runs() {
        let tasks = vec![subflow("c"), seq("g", vec![sleep("t", 5), exit("x", ExitState::Killed)])];
        let mut world = World::of(vec![parallel("all", 0, tasks)]).start();
        world.finish();
        assert!(world.asked.iter().any(|action| matches!(action, Action::CancelChild { .. })));
        world.child_ends(1, EndStatus::Cancelled, 0);
        assert_eq!(world.status(), Status::Cancelled);
    }

    fn a_sub_run_on_its_way_goes_on_by_itself() {
        let tasks = vec![subflow("c"), exit("x", ExitState::Success)];
        let mut world = World::of(vec![parallel("all", 0, tasks)]).calls("c", &[Silence]).start();
        world.answer_all();
        let op = world.pending.pop_front().expect("an admission");
        world.answer_with(&op, Good);
        assert_eq!(world.status(), Status::Completed);
        world.child_ends(1, EndStatus::Failed, 0);
        assert_eq!(world.status(), Status::Completed);
    }
}
